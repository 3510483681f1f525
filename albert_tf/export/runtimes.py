"""Files for LiteRT (once TensorFlow Lite) and OpenVINO, and what all runtimes share."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.export.saved_models import INPUTS, UncheckedModel
from albert_tf.options.parts import Weights

if TYPE_CHECKING:
    import openvino

TFLITE_FILE = "model.tflite"
OPENVINO_FILE = "model.xml"

Arrays = Mapping[str, np.ndarray]
# Maps `input_ids`, `input_mask` and `segment_ids` to predictions.
Run = Callable[[Arrays], Arrays]
Predict = Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]


def numeric(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the outputs, tensors or their specs, that are no strings, which few runtimes have."""
    return {name: output for name, output in outputs.items() if output.dtype != tf.string}


def graph_function(run: Run, signature: tf.types.experimental.ConcreteFunction) -> Predict:
    """Returns the predictions of a file, without strings, as a function from a batch with `INPUTS`.

    `signature` is that of the `UncheckedModel` that the file was made of.
    """
    specs = numeric(signature.structured_outputs)

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


def write_tflite(model: keras.Model, kind: Any, path: str, weights: Weights | None) -> None:
    """Writes a .tflite file with the signature `serving_default` of the SavedModel for ids.

    LiteRT runs it with built-in operators only. The converter reads a SavedModel for one text of a fixed
    length: from a Keras 3 model it would lose the values of the variables, and it cannot convert all
    operators of a model with a free length.

    Its inputs are `input_ids`, `input_mask` and `segment_ids`, int32 (1, S), one text padded to the
    kind's `max_seq_length`. Its outputs are those of the SavedModel without the names of labels. It
    stores each weight once. Without `weights` they are float32, whatever the model computes in; float16
    becomes float32 when the file is loaded. int8 has a scale per output of a dense layer, and rounds the
    layer's inputs to int8 as it runs ("dynamic range": each text has scales of its own).
    """
    positions = model.encoder.config.max_position_embeddings
    if kind.max_seq_length > positions:
        raise InputError(
            f"max_seq_length={kind.max_seq_length}: expected at most {positions}, the model's positions"
        )

    def predict(model, inputs):
        return numeric(kind.outputs(model(inputs, training=False)))

    shape = (1, kind.max_seq_length)
    specs = {name: tf.TensorSpec(shape, tf.int32, name) for name in INPUTS}
    module = UncheckedModel(model, predict, specs)
    with tempfile.TemporaryDirectory() as folder:
        with files.explain_refusal(path):
            tf.saved_model.save(module, folder, signatures=module.serve)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if weights:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if weights == "float16":
            converter.target_spec.supported_types = [tf.float16]
        content = converter.convert()
    files.write_bytes(path, content)


def convert_to_openvino(module: tf.Module) -> "openvino.Model":
    """Converts a module; the inputs and outputs of its `serve` keep their names."""
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

    The ranges of the activations are estimated from rows of typical inputs. The head of the Keras model
    that it was converted from remains in float32.
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
    advanced = nncf.AdvancedQuantizationParameters(
        # 7 bits: sums of 8-bit products overflow where a processor with AVX2 lacks VNNI.
        overflow_fix=nncf.OverflowFix.ENABLE,
        smooth_quant_alphas=without,
    )
    with quiet():
        return nncf.quantize(
            model,
            nncf.Dataset([dict(row) for row in rows]),
            subset_size=len(rows),
            model_type=nncf.ModelType.TRANSFORMER,
            ignored_scope=nncf.IgnoredScope(names=head),
            advanced_parameters=advanced,
        )


def openvino_specs(model: "openvino.Model") -> dict[str, tf.TensorSpec]:
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
        openvino.save_model(model, os.path.join(local, OPENVINO_FILE), compress_to_fp16=False)
        for name in os.listdir(local):
            files.write_bytes(
                os.path.join(folder, name), files.read_bytes(os.path.join(local, name))
            )


def compile_openvino(model: "openvino.Model", bfloat16: bool) -> Run:
    """Returns a function that runs a model on the CPU, in float32 if the CPU has no bfloat16."""
    import openvino

    core = openvino.Core()
    has_bfloat16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    hint = "bf16" if bfloat16 and has_bfloat16 else "f32"
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": hint})
    # An output may also have the name of the operation that computes it.
    names = [name for output in compiled.outputs for name in output.get_names()]

    def run(inputs: Arrays) -> dict[str, np.ndarray]:
        outputs = compiled(dict(inputs))
        return {name: outputs[name] for name in names}

    return run
