"""Files of ids for LiteRT (once TensorFlow Lite) and ONNX Runtime, and what all runtimes share."""

import contextlib
import importlib.util
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.export.ids_model import INPUTS, Outputs, UncheckedModel, input_specs

TFLITE_FILE = "model.tflite"
ONNX_FILE = "model.onnx"

# The newest that tf2onnx 1.17 knows.
_OPSET = 18

WeightType = Literal["float32", "float16", "int8"]

# Modules that write a form. The extra of this package that installs them has the name of the form.
_MODULES = {
    "onnx": ("onnx", "onnxruntime", "tf2onnx"),
    "openvino": ("nncf", "openvino", "openvino_tokenizers"),
}

Arrays = Mapping[str, np.ndarray]
# Maps `input_ids`, `input_mask` and `segment_ids` to predictions.
Run = Callable[[Arrays], Arrays]
Predict = Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]


def check_form(form: str, weights: str | None) -> None:
    """Checks the form of an exported model, and that the packages that write it are installed.

    Args:
        form: see `albert_tf.export.ExportDetails`.
        weights: the same.
    """
    if weights == "float16" and form != "tflite":
        raise InputError(f"export_weights=float16: expected export_format=tflite; received {form}")
    missing = [name for name in _MODULES.get(form, ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"export_format={form}: needs {', '.join(missing)}, which cannot be imported: "
            f"pip install 'albert-tf[{form}]'"
        )


def in_graph(run: Run, signature: tf.types.experimental.ConcreteFunction) -> Predict:
    """Returns a runtime's predictions as a function of tensors.

    Args:
        run: runs the file.
        signature: of the `UncheckedModel` that the file was made of.

    Returns:
        A function from a batch with `INPUTS` to the predictions by name, without strings.
    """
    specs = {
        name: spec for name, spec in signature.structured_outputs.items() if spec.dtype != tf.string
    }

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


def write_onnx(model: UncheckedModel, path: str, int8: bool) -> None:
    """Writes an .onnx file with the inputs and outputs of the model; it stores each weight once.

    Args:
        model: the model.
        path: the file.
        int8: whether to store matrices in int8. Products are then computed in int8, too, and each input
            of a layer has a scale of its own ("dynamic quantization").
    """
    import tf2onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    specs = list(input_specs(model.serve).values())
    # tf2onnx traces functions itself.
    function = tf.function(lambda *ids: model.serve(*ids), autograph=False)
    with quiet():
        converted, _ = tf2onnx.convert.from_function(function, specs, opset=_OPSET)
        if int8:
            with tempfile.TemporaryDirectory() as folder:
                local = os.path.join(folder, ONNX_FILE)
                quantize_dynamic(
                    converted,
                    local,
                    weight_type=QuantType.QInt8,
                    per_channel=True,
                    # 7 bits: sums of 8-bit products overflow where a processor with AVX2 lacks VNNI.
                    reduce_range=True,
                )
                content = files.read_bytes(local)
        else:
            content = converted.SerializeToString()
    files.write_bytes(path, content)


def load_onnx(path: str) -> Run:
    """Returns a function that runs a file with ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        files.read_bytes(path), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


class _Conversion(NamedTuple):
    """Settings of the converter.

    Attributes:
        optimizations: none, or the default one, which stores weights in fewer bits than float32.
        types: types of the stored weights; int8 without any.
    """

    optimizations: tuple[tf.lite.Optimize, ...] = ()
    types: tuple[tf.DType, ...] = ()


_CONVERSIONS: Mapping[WeightType, _Conversion] = {
    "float32": _Conversion(),
    "float16": _Conversion((tf.lite.Optimize.DEFAULT,), (tf.float16,)),
    "int8": _Conversion((tf.lite.Optimize.DEFAULT,)),
}


def write_tflite(
    model: keras.Model, outputs: Outputs, path: str, weights: WeightType, max_seq_length: int
) -> None:
    """Writes a .tflite file with the signature `serving_default` of the SavedModel for ids.

    LiteRT runs it with built-in operators only. The converter reads a SavedModel for one text of a fixed
    length: from a Keras 3 model it would lose the values of the variables, and it cannot convert all
    operators of a model with a free length.

    Its inputs are `input_ids`, `input_mask` and `segment_ids`, int32 (1, S), one text padded to
    S = `max_seq_length`. Its outputs are those of the SavedModel without the names of labels. It stores
    each weight once.

    Args:
        model: the fine-tuned model; the file computes in float32 whatever the model computes in.
        outputs: selects the outputs to return.
        path: the file.
        weights: type of the stored weights. `float16` becomes float32 when the file is loaded. `int8`
            has a scale per output of a dense layer, and rounds the layer's inputs to int8 as it runs
            ("dynamic range": each text has scales of its own).
        max_seq_length: S, at most the model's number of positions.
    """
    if weights not in _CONVERSIONS:
        *others, last = _CONVERSIONS
        raise InputError(f"weights='{weights}': a .tflite file has {', '.join(others)} or {last}")
    positions = model.encoder.config.max_position_embeddings
    if not 1 <= max_seq_length <= positions:
        raise InputError(
            f"max_seq_length={max_seq_length}: expected 1 to {positions}, the model's positions"
        )
    module = UncheckedModel(model, _without_strings(outputs), (1, max_seq_length))
    with tempfile.TemporaryDirectory() as folder:
        with files.explain_refusal(path):
            tf.saved_model.save(module, folder, signatures=module.serve)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = list(_CONVERSIONS[weights].optimizations)
        converter.target_spec.supported_types = list(_CONVERSIONS[weights].types)
        content = converter.convert()
    files.write_bytes(path, content)


def _without_strings(outputs: Outputs) -> Outputs:
    """Leaves out the outputs that only TensorFlow has a type for."""

    def without_strings(received):
        return {
            name: value for name, value in outputs(received).items() if value.dtype != tf.string
        }

    return without_strings
