"""The weights of SavedModels in 16 bits and in int8."""

import collections
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export.weights import Int8Matrix, make_exported_weights, round_to_int8
from albert_tf.models import AlbertClassifier, AlbertEncoder
from tests.export.kinds import (
    VOCAB_SIZE,
    assert_equal,
    expected_of,
    expected_of_texts,
    export_kind,
    make_inputs,
    text_columns,
)
from tests.export.runtimes import run_loaded
from tests.helpers import tiny_config


def make_model(dtype="float32", **sizes):
    encoder = AlbertEncoder(tiny_config(vocab_size=VOCAB_SIZE, **sizes), seed=1, dtype=dtype)
    return AlbertClassifier(encoder, num_classes=3, seed=2, dtype=dtype)


def rounded(model):
    like = type(model).from_config(model.get_config())
    like.set_weights(model.get_weights())
    round_to_int8(like)
    return like


@pytest.fixture(scope="module")
def models():
    return {
        "bfloat16": make_model("mixed_bfloat16", num_hidden_layers=3),
        # Matrices large enough to be nearly all of a folder.
        "int8": make_model(hidden_size=192, intermediate_size=512),
    }


@pytest.fixture(scope="module")
def paths(models, tokenizer, tmp_path_factory):
    """The folders of a model in each type."""
    return {
        name: export_kind(
            "classifier",
            model,
            tokenizer,
            str(tmp_path_factory.mktemp(name)),
            "saved_model",
            weights="int8" if name == "int8" else None,
        )
        for name, model in models.items()
    }


@pytest.mark.parametrize(("name", "atol"), [("bfloat16", 1e-3), ("int8", 1e-5)])
def test_answers_are_those_of_the_model_that_is_evaluated(name, atol, models, paths, tokenizer):
    model = rounded(models[name]) if name == "int8" else models[name]
    inputs = make_inputs("classifier")
    received = run_loaded(paths[name]["ids"], inputs)
    assert_equal(received, expected_of("classifier", tf.function(model), inputs), atol)
    received = run_loaded(paths[name]["text"], text_columns("classifier"))
    assert_equal(received, expected_of_texts("classifier", model, tokenizer), atol)
    assert {weight.dtype for weight in models[name].weights} == {"float32"}


@pytest.mark.parametrize(("name", "size"), [("bfloat16", 2.1), ("int8", 1.05)])
def test_weights_are_stored_as_they_are_computed_with(name, size, models, paths):
    folder, weights = os.path.join(paths[name]["ids"], "variables"), models[name].weights
    data = pathlib.Path(folder, "variables.data-00000-of-00001").stat().st_size
    assert data < size * models[name].count_params() + 20_000
    variables = tf.train.load_checkpoint(os.path.join(folder, "variables"))
    dtypes = collections.Counter(
        dtype.name
        for name, dtype in variables.get_variable_to_dtype_map().items()
        if "VARIABLE_VALUE" in name
    )
    norms = sum(weight.path.endswith(("gamma", "beta")) for weight in weights)
    matrices = sum(len(weight.shape) == 2 for weight in weights)
    # A matrix in int8 has scales.
    assert (
        dtypes
        == {
            "bfloat16": {"float32": norms, "bfloat16": len(weights) - norms},
            "int8": {"float32": len(weights), "int8": matrices},
        }[name]
    )


def test_each_weight_is_read_once_however_often_the_block_is_applied(models, paths):
    signature = tf.saved_model.load(paths["bfloat16"]["ids"]).signatures["serving_default"]
    definition = signature.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    reads = sum(node.op == "ReadVariableOp" for node in nodes)
    assert len(models["bfloat16"].weights) == reads


def test_int8_in_16_bits_is_what_is_evaluated(models):
    model = models["bfloat16"]
    exported = make_exported_weights(model, int8=True)
    matrices = 0
    for weight, evaluated in zip(exported, rounded(model).weights, strict=True):
        if isinstance(weight, Int8Matrix):
            matrices += 1
            read = weight.read()
            assert read.dtype == tf.bfloat16
            np.testing.assert_array_equal(read, tf.cast(evaluated.value, tf.bfloat16))
    assert matrices > 5


def test_each_value_is_within_half_a_step_of_its_row_or_column(models):
    again = rounded(rounded(models["int8"]))
    columns = models["int8"].weights, rounded(models["int8"]).weights, again.weights
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
