"""Files for OpenVINO."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.export import openvino_text
from albert_tf.export.saved_models import PAIRS, UncheckedModel, ids_specs
from albert_tf.export.writers import Arrays, Exported, Run, Written, quiet
from albert_tf.tokenization import AlbertTokenizer

if TYPE_CHECKING:
    import openvino

OPENVINO_NAME = "model"


def write(exported: Exported, folders: Mapping[str, str]) -> dict[str, Written]:
    """Writes the files of an exported model; what runs them takes ids, without the tokenizer."""
    kind, tokenizer = exported.kind, exported.tokenizer

    def predict(model, inputs):
        return kind.outputs(model(inputs, training=False))

    unchecked = UncheckedModel(exported.model, predict, ids_specs(kind))
    model = openvino_text.convert_to_openvino(unchecked)
    is_int8 = exported.weights == "int8"
    # What the file computes in, apart from its products in int8.
    is_bfloat16 = exported.model.compute_dtype == "bfloat16" and not is_int8
    if is_int8:
        model = quantize(model, exported.calibration, exported.model)
    elif is_bfloat16:
        store_in_bfloat16(model)
    run = compile_openvino(model, is_bfloat16)
    if kind.reads_one_sequence and isinstance(tokenizer, AlbertTokenizer):

        def add_tokenizer(ids_model, names):
            return openvino_text.add_tokenizer(
                ids_model, tokenizer, names=names, max_seq_length=kind.max_seq_length
            )

        if kind.optional_texts:  # a file has one signature
            with_pairs = add_tokenizer(model.clone(), (*kind.texts, *kind.optional_texts))
            write_openvino(with_pairs, folders["openvino"], PAIRS)
        model = add_tokenizer(model, kind.texts)
    inputs = openvino_specs(model)
    write_openvino(model, folders["openvino"], OPENVINO_NAME)
    written = Written(
        stored_in="bfloat16" if is_bfloat16 else "float32",
        inputs=inputs,
        outputs=unchecked.serve.structured_outputs,
        run=run,
    )
    return {"openvino": written}


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


def write_openvino(model: "openvino.Model", folder: str, name: str) -> None:
    """Writes `<name>.xml` and `<name>.bin`."""
    import openvino

    with tempfile.TemporaryDirectory() as local:
        openvino.save_model(model, os.path.join(local, f"{name}.xml"), compress_to_fp16=False)
        for file in os.listdir(local):
            files.write_bytes(
                os.path.join(folder, file), files.read_bytes(os.path.join(local, file))
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
