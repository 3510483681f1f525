"""Converts models for OpenVINO, quantizes, runs and writes them."""

import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.export.runtimes import Arrays, Run, quiet

if TYPE_CHECKING:
    import openvino

FILE_NAME = "model.xml"

Precision = Literal["float32", "bfloat16"]


def convert(module: tf.Module) -> "openvino.Model":
    """Converts a module with a `signature`, whose inputs and outputs keep their names."""
    import openvino
    from openvino import opset15
    from openvino.frontend.tensorflow import ConversionExtension

    def search(node, right_mode: bool):
        # TensorFlow leaves out an attribute that has its default.
        is_int64 = "64" in str(node.get_attribute("out_type", "i32"))
        found = opset15.search_sorted(node.get_input(0), node.get_input(1), right_mode=right_mode)
        return opset15.convert(found, "i64" if is_int64 else "i32").outputs()

    # The two forms of `tf.searchsorted`, which the converter does not know.
    extensions = [
        ConversionExtension("LowerBound", lambda node: search(node, right_mode=False)),
        ConversionExtension("UpperBound", lambda node: search(node, right_mode=True)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=module.serve)
        return openvino.convert_model(folder, extension=extensions)


def store_in_bfloat16(model: "openvino.Model") -> None:
    """Stores the matrices of a model in bfloat16, half of their size."""
    from openvino import Type, opset15

    for node in model.get_ops():
        is_float32 = node.get_type_name() == "Constant" and node.get_element_type() == Type.f32
        if is_float32 and len(node.shape) == 2:
            stored = opset15.constant(node.data, Type.bf16)
            node.output(0).replace(opset15.convert(stored, "f32").output(0))


def quantize(
    model: "openvino.Model", rows: Sequence[Arrays], original: keras.Model
) -> "openvino.Model":
    """Returns a model that stores matrices in int8 and computes products in int8.

    Args:
        model: maps ids to predictions, in float32.
        rows: typical inputs, from which the ranges of the activations are estimated.
        original: the Keras model that it was converted from; its head remains in float32.
    """
    import nncf

    # A head is small. In int8, OpenVINO 2026.4 computed a wrong second output of a span labeler's.
    head = [
        node.get_friendly_name()
        for node in model.get_ops()
        if node.get_type_name() == "MatMul"
        and node.get_friendly_name().startswith(original.name)
        and f"/{original.encoder.name}" not in node.get_friendly_name()
    ]
    # SmoothQuant would scale the weights for each layer, so that 12 layers would no longer share theirs.
    without = nncf.AdvancedSmoothQuantParameters(matmul=-1.0, convolution=-1.0)
    with quiet():
        return nncf.quantize(
            model,
            nncf.Dataset([dict(row) for row in rows]),
            subset_size=len(rows),
            model_type=nncf.ModelType.TRANSFORMER,
            ignored_scope=nncf.IgnoredScope(names=head),
            advanced_parameters=nncf.AdvancedQuantizationParameters(smooth_quant_alphas=without),
        )


def input_specs(model: "openvino.Model") -> dict[str, tf.TensorSpec]:
    """Returns the inputs of a model by name."""
    types = {"i32": tf.int32, "string": tf.string}
    return {
        each.get_any_name(): tf.TensorSpec(
            [None if size.is_dynamic else size.get_length() for size in each.partial_shape],
            types[each.element_type.to_string()],
        )
        for each in model.inputs
    }


def write_openvino(model: "openvino.Model", folder: str) -> None:
    """Writes `model.xml` and `model.bin`."""
    import openvino

    with tempfile.TemporaryDirectory() as local:
        openvino.save_model(model, os.path.join(local, FILE_NAME), compress_to_fp16=False)
        for name in os.listdir(local):
            files.write_bytes(
                os.path.join(folder, name), files.read_bytes(os.path.join(local, name))
            )


def compile_openvino(model: "openvino.Model", precision: Precision) -> Run:
    """Returns a function that runs a model on the CPU, in float32 if the CPU has no bfloat16."""
    import openvino

    core = openvino.Core()
    has_bfloat16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    hint = "bf16" if precision == "bfloat16" and has_bfloat16 else "f32"
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": hint})
    # An output may also have the name of the operation that computes it.
    names = [name for output in compiled.outputs for name in output.get_names()]

    def run(inputs: Arrays) -> dict[str, np.ndarray]:
        outputs = compiled(dict(inputs))
        return {name: outputs[name] for name in names}

    return run
