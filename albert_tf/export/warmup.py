"""Files for TensorFlow Serving next to a SavedModel: warm-up requests and batching parameters.

The first run of a graph optimizes it and fills caches. So the server reads
`assets.extra/tf_serving_warmup_requests`, a TFRecord file of `PredictionLog` protos
(https://www.tensorflow.org/tfx/serving/saved_model_warmup), and takes traffic after answering them.
"""

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError, name_place
from albert_tf.export.saved_models import input_specs
from albert_tf.export.version_folders import check_saved_model
from albert_tf.extras import check_extra, is_installed

WARMUP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
BATCHING_FILE = "batching_params.pbtxt"

# That has the protos.
_MODULE = "tensorflow_serving"

# The server refuses a model with more of them.
_MAX_REQUESTS = 1000
_MAX_REASON_LENGTH = 300

_SAMPLE_BATCH_SIZES = (1, 8)
_SAMPLE_LENGTH = 5  # the least `max_seq_length`; models have as many positions or more
_SAMPLE_CHOICES = 2
_SAMPLE_TEXT = (
    "The server loads a model, answers a few requests like this one, and opens its doors."
)

# A proto `BatchingParameters`: a request may have 1024 texts, and is batched with others that arrive
# within 5 ms.
_BATCHING_PARAMETERS = """\
max_batch_size { value: 1024 }
batch_timeout_micros { value: 5000 }
max_enqueued_batches { value: 100 }
"""
# Batches have 32 texts; a request may become a part of several.
_SPLITTING = """\
enable_large_batch_splitting { value: true }
max_execution_batch_size { value: 32 }
"""


def write_batching_parameters(saved_model_dir: str, outputs: Mapping[str, tf.TensorSpec]) -> None:
    """Writes how the server may batch requests to a model that takes text only.

    The server concatenates the tensors of several requests along the first axis. If other axes differ,
    as those of ids do, it refuses the requests; if told to pad, it pads a mask with its first value, 1.
    It also concatenates the outputs of a request that it has split, and aborts if other axes differ.
    With `--enable_per_model_batching_parameters` it batches for models with such a file only.
    """
    can_split = all(spec.shape[1:].is_fully_defined() for spec in outputs.values())
    parameters = _BATCHING_PARAMETERS + _SPLITTING * can_split
    files.write_text(os.path.join(saved_model_dir, BATCHING_FILE), parameters)


def is_available() -> bool:
    """Returns whether `tensorflow-serving-api`, which has the protos, is installed."""
    return is_installed(_MODULE)


def sample_requests(signature: Callable) -> list[dict[str, np.ndarray]]:
    """Returns inputs of two batch sizes for any exported model: texts, or valid ids without padding."""
    requests: list[dict[str, np.ndarray]] = [{}, {}]
    for name, spec in input_specs(signature).items():
        for request, batch_size in zip(requests, _SAMPLE_BATCH_SIZES, strict=True):
            # (B,) or (B, C) for texts, (B, S) or (B, C, S) for ids
            sizes = (batch_size, *[_SAMPLE_CHOICES] * (spec.shape.rank - 2), _SAMPLE_LENGTH)
            shape = [known or size for known, size in zip(spec.shape, sizes, strict=False)]
            if spec.dtype == tf.string:
                request[name] = np.full(shape, _SAMPLE_TEXT, object)
            else:
                request[name] = np.full(shape, int(name == "input_mask"), np.int32)
    return requests


def write_warmup_requests(
    saved_model_dir: str, signature: Callable, requests: Sequence[Mapping[str, Any]]
) -> str:
    """Writes requests and the model's answers into the folder of a SavedModel.

    Requests like those of your users warm a server up best:

        signature = tf.saved_model.load("exported/text/1").signatures["serving_default"]
        write_warmup_requests("exported/text/1", signature, [{"text_a": ["A gripping film."]}])

    Args:
        saved_model_dir: folder of a version.
        signature: `serving_default` of that model, as exported or loaded.
        requests: up to 1000 of them, each the model's inputs by name.

    Returns:
        The written file.

    Raises:
        InputError: the extra `serving` is not installed, there are no requests or too many, the
            model does not answer one, or the folder holds no model.
        StoppedError: the file system refuses.
    """
    with name_place("warm-up requests"):
        check_extra("serving", _MODULE)
    if not 0 < len(requests) <= _MAX_REQUESTS:
        raise InputError(
            f"received {len(requests)} warm-up requests; expected 1 to {_MAX_REQUESTS}"
        )
    check_saved_model(saved_model_dir)
    logs = [_prediction_log(signature, dict(request)) for request in requests]
    path = os.path.join(saved_model_dir, WARMUP_FILE)
    with files.explain_refusal(path):
        files.make_folders(os.path.dirname(path))
    with files.write_atomically(path) as incomplete, tf.io.TFRecordWriter(incomplete) as writer:
        for log in logs:
            writer.write(log.SerializeToString())
    return path


def _prediction_log(signature: Callable, inputs: dict[str, Any]):
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    specs = input_specs(signature)
    if set(inputs) != set(specs):
        raise InputError(
            f"received a warm-up request of {', '.join(sorted(inputs)) or 'nothing'}; "
            f"expected {', '.join(sorted(specs))}"
        )
    try:
        tensors = {name: tf.constant(inputs[name], spec.dtype) for name, spec in specs.items()}
        outputs = signature(**tensors)
    except (TypeError, ValueError, tf.errors.OpError) as error:
        reason = textwrap.shorten(str(error), _MAX_REASON_LENGTH, placeholder=" ...")
        raise InputError(f"the model does not answer a warm-up request: {reason}") from error
    request, response = predict_pb2.PredictRequest(), predict_pb2.PredictResponse()
    request.model_spec.signature_name = response.model_spec.signature_name = "serving_default"
    for protos, values in ((request.inputs, tensors), (response.outputs, outputs)):
        for name, tensor in values.items():
            protos[name].CopyFrom(tf.make_tensor_proto(tensor.numpy()))
    return prediction_log_pb2.PredictionLog(
        predict_log=prediction_log_pb2.PredictLog(request=request, response=response)
    )
