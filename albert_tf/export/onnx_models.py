"""ONNX files with the names, types and places that Hugging Face's libraries expect, and how to run them.

Optimum, transformers.js and others look for `onnx/model.onnx` in a folder with `config.json` and the
tokenizer's files (https://huggingface.co/docs/transformers.js/custom_usage). Its inputs and outputs are
those of the models of `transformers`.
"""

import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.export.saved_models import INPUTS, UncheckedModel, input_specs
from albert_tf.export.writers import Arrays, Exported, Run, Written, numeric, quiet
from albert_tf.models import AlbertEmbedder, AlbertEncoder, AlbertPretrainer
from albert_tf.options.export_forms import Weights

if TYPE_CHECKING:
    import onnx

# Ours -> theirs.
_INPUTS = dict(zip(INPUTS, ("input_ids", "attention_mask", "token_type_ids"), strict=True))
ENCODER_OUTPUTS = {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"}
# By the data type of the matrices, as transformers.js names them.
_FILES = {None: "model.onnx", "float16": "model_fp16.onnx", "int8": "model_quantized.onnx"}

# The newest that tf2onnx 1.17 knows.
_OPSET = 18


def write(exported: Exported, folders: Mapping[str, str]) -> dict[str, Written]:
    """Writes the file of an exported model into its version folder."""
    module = onnx_module(exported.model, exported.kind)
    path = write_onnx(module, folders["onnx"], exported.weights)
    written = Written(
        inputs=onnx_inputs(module), outputs=module.serve.structured_outputs, run=load_onnx(path)
    )
    return {"onnx": written}


def onnx_module(model: keras.Model, kind: Any = None) -> UncheckedModel:
    """Returns the module of a model's ONNX file, with the outputs of the file.

    Those of a `albert_tf.kinds.Kind` are as in other forms, and an embedder returns its hidden states,
    too. Without a kind they are what the model returns; a pre-trained model returns the `logits`
    (B, S, V) of the pieces at all positions.
    """

    def predict(model, inputs):
        if isinstance(model, AlbertPretrainer):
            states = model.encoder(inputs, training=False)["sequence_output"]
            table = model.encoder.embedding.word_embeddings
            return {"logits": model.masked_lm_head(states, table)}
        if isinstance(model, AlbertEmbedder):
            states = model.encoder(inputs, training=False)["sequence_output"]
            return {"last_hidden_state": states, **kind.outputs(model.pool(states, inputs))}
        outputs = model(inputs, training=False)
        if isinstance(model, AlbertEncoder):
            return {
                ENCODER_OUTPUTS[name]: outputs[name] for name in ENCODER_OUTPUTS if name in outputs
            }
        if kind:
            return numeric(kind.outputs(outputs))
        return outputs if isinstance(outputs, Mapping) else {"logits": outputs}

    shape = model.input_shapes["input_ids"]
    specs = {name: tf.TensorSpec(shape, tf.int32, name) for name in INPUTS}
    return UncheckedModel(model, predict, specs)


def onnx_inputs(module: UncheckedModel) -> dict[str, tf.TensorSpec]:
    """Returns the inputs of a module's ONNX file: int64 (B, S) each, or (B, C, S) with choices."""
    specs = input_specs(module.serve)
    return {
        theirs: tf.TensorSpec(specs[name].shape, tf.int64, theirs)
        for name, theirs in _INPUTS.items()
    }


def write_onnx(module: UncheckedModel, folder: str, weights: Weights | None) -> str:
    """Writes the .onnx file into a model's folder, and returns its path.

    It stores each matrix once, in float32 or, with `float16`, in half of the space; runtimes convert them
    to float32 as they load the file. With `int8` products are computed in int8, too, and each input of a
    layer has a scale of its own ("dynamic quantization").
    """
    import tf2onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    def serve(*ids):
        return module.serve(*(tf.cast(tensor, tf.int32) for tensor in ids))

    inputs = onnx_inputs(module)
    path = os.path.join(folder, "onnx", _FILES[weights])
    with quiet(), tempfile.TemporaryDirectory() as local:
        # tf2onnx traces functions itself.
        function = tf.function(serve, autograph=False)
        model, _ = tf2onnx.convert.from_function(
            function,
            [*inputs.values()],
            opset=_OPSET,
            custom_op_handlers={"Erfc": (_write_erfc, [])},
        )
        _name_axes(model.graph)
        if weights == "int8":
            file = os.path.join(local, _FILES[weights])
            quantize_dynamic(
                model,
                file,
                weight_type=QuantType.QInt8,
                per_channel=True,
                # 7 bits: sums of 8-bit products overflow where a processor with AVX2 lacks VNNI.
                reduce_range=True,
            )
            content = files.read_bytes(file)
        else:
            _store_matrices(model.graph, weights == "float16")
            content = model.SerializeToString()
    files.make_directory(os.path.dirname(path))
    files.write_bytes(path, content)
    return path


def _write_erfc(graph: Any, node: Any, name: str, args: list) -> None:
    """Writes erfc(x) of the exact gelu, that of BERT, as 1 - erf(x): ONNX has no operator for it."""
    shapes, types = node.output_shapes, node.output_dtypes
    one = graph.make_const(f"{name}/one", np.array(1, np.float32))
    erf = graph.make_node("Erf", node.input)
    graph.remove_node(name)
    graph.make_node(
        "Sub", [one.output[0], erf.output[0]], outputs=node.output, shapes=shapes, dtypes=types
    )


def _name_axes(graph: "onnx.GraphProto") -> None:
    """Names the free axes of inputs and outputs; those of outputs are the same."""
    has_choices = len(graph.input[0].type.tensor_type.shape.dim) == 3
    names = ["batch_size", *["num_choices"] * has_choices, "sequence_length"]
    for value in (*graph.input, *graph.output):
        for name, axis in zip(names, value.type.tensor_type.shape.dim, strict=False):
            if not axis.dim_value:
                axis.dim_param = name


def _store_matrices(graph: "onnx.GraphProto", float16: bool) -> None:
    """Stores a matrix that is read transposed, too, such as the word table, once."""
    from onnx import TensorProto, helper, numpy_helper

    stored: dict[tuple[tuple[int, ...], bytes], str] = {}
    nodes = []
    for tensor in list(graph.initializer):
        matrix = numpy_helper.to_array(tensor)
        if matrix.ndim != 2 or matrix.dtype != np.float32:
            continue
        name, stored_name = tensor.name, stored.get((matrix.T.shape, matrix.T.tobytes()))
        if stored_name:
            graph.initializer.remove(tensor)
            nodes.append(helper.make_node("Transpose", [stored_name], [name], perm=[1, 0]))
            continue
        stored[matrix.shape, matrix.tobytes()] = name
        if float16:
            rounded = numpy_helper.from_array(matrix.astype(np.float16), f"{name}_float16")
            tensor.CopyFrom(rounded)
            nodes.append(helper.make_node("Cast", [rounded.name], [name], to=TensorProto.FLOAT))
    nodes += graph.node
    del graph.node[:]
    graph.node.extend(nodes)


def load_onnx(path: str) -> Run:
    """Returns a function that runs a file with ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        files.read_bytes(path), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Arrays) -> Arrays:
        feed = {_INPUTS[name]: ids.astype(np.int64) for name, ids in inputs.items()}
        return dict(zip(names, session.run(names, feed), strict=True))

    return run
