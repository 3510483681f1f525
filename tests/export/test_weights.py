"""The weights of exported models, in the type in which they are computed with or that the user asks for.

For ONNX Runtime and OpenVINO these tests need the group parity (`make test-parity`).
"""

import collections
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export.saved_models import IdsModel
from albert_tf.export.weights import Int8Matrix, in_float32, make_exported_weights, round_to_int8
from albert_tf.models import AlbertEncoder
from tests.export.kinds import LARGER_THAN_ITS_GRAPH, MAX_SEQ_LENGTH, OF_NAMES, export_kind
from tests.export.runtimes import need, run_loaded, run_onnx, run_openvino, run_tflite
from tests.helpers import random_inputs, tiny_config

RUNS = {
    "saved_model": ("variables/variables.data-00000-of-00001", run_loaded),
    "tflite": ("model.tflite", run_tflite),
    "onnx": ("onnx/*", run_onnx),
    "openvino": ("model.bin", run_openvino),
}


def make_model(dtype):
    """A span labeler whose weights decide the size of its file."""
    encoder = AlbertEncoder(tiny_config(**LARGER_THAN_ITS_GRAPH), seed=1, dtype=dtype)
    return OF_NAMES["simple_spans"].make_model(encoder, 0.0, 2, dtype)


def rounded(model):
    like = type(model).from_config(model.get_config())
    like.set_weights(model.get_weights())
    round_to_int8(like)
    return like


# Bytes per parameter, as the head does not use the pooler; the largest difference of a logit, up to 3.
@pytest.mark.parametrize(
    ("form", "dtype", "weights", "least", "most", "bound"),
    [
        ("saved_model", "mixed_bfloat16", None, 2, 2.1, 0.03),
        ("saved_model", "float32", "int8", 1, 1.1, 1e-5),
        ("tflite", "float32", None, 3.8, 4.2, 1e-5),
        ("tflite", "mixed_bfloat16", None, 3.8, 4.2, 1e-5),
        ("tflite", "float32", "float16", 1.9, 2.2, 5e-3),
        ("tflite", "float32", "int8", 0.95, 1.2, 0.15),
        ("onnx", "float32", None, 3.8, 6, 1e-5),
        ("onnx", "float32", "float16", 1.9, 3, 5e-3),
        ("onnx", "float32", "int8", 0.95, 1.5, 0.15),
        ("openvino", "float32", None, 3.8, 4.1, 1e-5),
        ("openvino", "mixed_bfloat16", None, 1.9, 2.1, 0.03),
        ("openvino", "float32", "int8", 0.95, 1.2, 0.1),
    ],
)
def test_weights_are_stored_once(form, dtype, weights, least, most, bound, tokenizer, tmp_path):
    need(form)
    model = make_model(dtype)
    rows = [random_inputs(1, length, 1500, seed=length) for length in range(5, 25)]
    where = (tokenizer, str(tmp_path), form, weights)
    paths = export_kind("simple_spans", model, *where, calibration=rows)
    folder = pathlib.Path(paths.get("ids") or paths[form])
    file, run = RUNS[form]
    (path,) = folder.glob(file)
    size = path.stat().st_size / model.count_params()
    assert least < size < most
    stored_in = weights or ("float32" if form == "tflite" else dtype.removeprefix("mixed_"))
    assert f"stored in {stored_in}" in (folder / "README.md").read_text()
    # In int8, evaluation is that of a rounded model, which a SavedModel gives exactly.
    expected = rounded(model) if (form, weights) == ("saved_model", "int8") else in_float32(model)
    length = MAX_SEQ_LENGTH if form == "tflite" else 11
    inputs = random_inputs(length=length, vocab_size=1500)
    received = run(str(folder), inputs)
    for name, values in expected(inputs).items():
        np.testing.assert_allclose(received[name], values, rtol=0, atol=bound, err_msg=name)
    assert model.compute_dtype == dtype.removeprefix("mixed_")
    assert {weight.dtype for weight in model.weights} == {"float32"}


def test_types_of_the_stored_weights():
    bfloat16, float32 = make_model("mixed_bfloat16"), make_model("float32")
    norms = sum(weight.path.endswith(("gamma", "beta")) for weight in float32.weights)
    matrices = sum(len(weight.shape) == 2 for weight in float32.weights)
    count = len(float32.weights)
    for model, int8, expected in (
        (bfloat16, False, {"float32": norms, "bfloat16": count - norms}),
        (float32, True, {"float32": count - matrices, "Int8Matrix": matrices}),
    ):
        types = [
            "Int8Matrix" if isinstance(weight, Int8Matrix) else weight.dtype.name
            for weight in make_exported_weights(model, int8)
        ]
        assert collections.Counter(types) == expected
    # In 16 bits an int8 matrix is what is evaluated.
    exported = make_exported_weights(bfloat16, int8=True)
    for weight, evaluated in zip(exported, rounded(bfloat16).weights, strict=True):
        if isinstance(weight, Int8Matrix):
            read = weight.read()
            assert read.dtype == tf.bfloat16
            np.testing.assert_array_equal(read, tf.cast(evaluated.value, tf.bfloat16))


def test_each_weight_is_read_once_however_often_the_block_is_applied():
    model = make_model("mixed_bfloat16")
    definition = IdsModel(model, OF_NAMES["simple_spans"], False).serve.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    reads = sum(node.op == "ReadVariableOp" for node in nodes)
    assert len(model.weights) == reads


def test_each_value_is_within_half_a_step_of_its_row_or_column():
    model = make_model("float32")
    approximate = rounded(model)
    columns = model.weights, approximate.weights, rounded(approximate).weights
    for exact, approximate, same in zip(*columns, strict=True):
        difference = np.abs(approximate.numpy() - exact.numpy())
        np.testing.assert_allclose(same.numpy(), approximate.numpy(), rtol=1e-6)
        if len(exact.shape) < 2:
            assert not difference.any()
            continue
        axis = 1 if exact.path.endswith("embeddings") else 0
        step = np.abs(exact.numpy()).max(axis=axis, keepdims=True) / 127
        assert difference.any()
        assert (difference <= 0.501 * step).all(), exact.path
