"""What the writers of all forms receive and return.

The module of a form has one function, `write(exported, folders)`. It writes into folders that are there
and empty, by their names in the form's row of `FORMS`, and returns a `Written` for each of them.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf.export.saved_models import INPUTS
from albert_tf.options.export_forms import Weights
from albert_tf.tokenization import Tokenizer

Specs = Mapping[str, tf.TensorSpec]
Arrays = Mapping[str, np.ndarray]
# Maps `input_ids`, `input_mask` and `segment_ids` to predictions.
Run = Callable[[Arrays], Arrays]
Predict = Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]


class Exported(NamedTuple):
    """A model to write, and how; see `albert_tf.export.export`.

    `variables_by_path(model.weights)` of `albert_tf.checkpoints.tensors` names its weights, which are
    Keras variables: `.numpy()` is the array of each. What it predicts is `kind.outputs(model(inputs))`.
    """

    model: keras.Model
    kind: Any
    tokenizer: Tokenizer
    weights: Weights | None
    calibration: Sequence[Arrays]


class Written(NamedTuple):
    """What a form says of what it wrote into a folder."""

    stored_in: str = "float32"  # data type of the matrices unless `weights` says another
    inputs: Specs = MappingProxyType({})  # empty if they are not known
    outputs: Specs = MappingProxyType({})
    title: str = "Inputs and outputs"  # of both in the model card
    run: Run | None = None  # runs the file on ids, if the form is evaluated as a file


def numeric(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the outputs, tensors or their specs, that are no strings, which few runtimes have."""
    return {name: output for name, output in outputs.items() if output.dtype != tf.string}


def graph_function(written: Written) -> Predict:
    """Returns the predictions of a file, without strings, as a function from a batch with `INPUTS`."""
    specs, run = numeric(written.outputs), written.run
    assert run is not None, "the form can be evaluated"

    def run_arrays(*inputs):
        outputs = run(dict(zip(INPUTS, inputs, strict=True)))
        return [
            outputs[name].astype(spec.dtype.as_numpy_dtype, copy=False)
            for name, spec in specs.items()
        ]

    def predict(batch):
        inputs = [batch[name] for name in INPUTS]
        outputs = tf.numpy_function(run_arrays, inputs, [spec.dtype for spec in specs.values()])
        return {
            name: tf.ensure_shape(values, spec.shape)
            for (name, spec), values in zip(specs.items(), outputs, strict=True)
        }

    return predict


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hides the warnings of converters, which are about their own insides."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
