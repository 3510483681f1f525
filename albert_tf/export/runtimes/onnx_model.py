"""Writes one file of ids for ONNX Runtime."""

import os
import tempfile

import tensorflow as tf

from albert_tf import files
from albert_tf.export.runtimes.runtime import Run, quiet
from albert_tf.export.saved_models.ids_model import UncheckedModel, input_specs

FILE_NAME = "model.onnx"

# The newest that tf2onnx 1.17 knows.
_OPSET = 18


def write_onnx(model: UncheckedModel, path: str, int8: bool) -> None:
    """Writes an .onnx file with the inputs and outputs of the model; it stores each weight once.

    Args:
        model: the model.
        path: the file.
        int8: whether to store matrices in int8. Products are then computed in int8, too, and each input
            of a layer has a scale of its own ("dynamic quantization").

    Raises:
        StoppedError: the file system refuses.
    """
    import tf2onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    specs = list(input_specs(model.signature).values())
    # tf2onnx traces functions itself.
    function = tf.function(lambda *ids: model.signature(*ids), autograph=False)
    with quiet():
        converted, _ = tf2onnx.convert.from_function(function, specs, opset=_OPSET)
        if int8:
            with tempfile.TemporaryDirectory() as folder:
                local = os.path.join(folder, FILE_NAME)
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
