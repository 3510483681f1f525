import collections
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export import ExportDetails, export
from albert_tf.export.weights import Int8Matrix, make_exported_weights, round_to_int8
from albert_tf.models import AlbertClassifier, AlbertEncoder
from tests.export.kinds import SINGLE_TEXTS
from tests.export.runtimes import run_loaded
from tests.export.samples import TEXTS, VOCAB_SIZE, expected_of_texts
from tests.helpers import random_inputs, tiny_config

LAYERS = 3


@pytest.fixture(scope="module")
def bf16_model():
    config = tiny_config(vocab_size=VOCAB_SIZE, num_hidden_layers=LAYERS)
    encoder = AlbertEncoder(config, seed=1, dtype="mixed_bfloat16")
    return AlbertClassifier(encoder, num_classes=3, seed=2, dtype="mixed_bfloat16")


@pytest.fixture(scope="module")
def bf16_paths(bf16_model, tokenizer, tmp_path_factory):
    export_dir = str(tmp_path_factory.mktemp("bf16"))
    return export(bf16_model, SINGLE_TEXTS, tokenizer, export_dir)


@pytest.fixture(scope="module")
def bf16_path(bf16_paths):
    return bf16_paths["ids"]


@pytest.mark.slow
def test_16_bit_weights_are_stored_as_they_are_computed_with(bf16_model, bf16_path):
    variables = tf.train.load_checkpoint(os.path.join(bf16_path, "variables", "variables"))
    dtypes = collections.Counter(
        dtype.name
        for name, dtype in variables.get_variable_to_dtype_map().items()
        if "VARIABLE_VALUE" in name
    )
    norms = sum(weight.path.endswith(("gamma", "beta")) for weight in bf16_model.weights)
    assert dtypes == {"float32": norms, "bfloat16": len(bf16_model.weights) - norms}
    data = pathlib.Path(bf16_path, "variables", "variables.data-00000-of-00001").stat().st_size
    assert data < 2.1 * bf16_model.count_params() + 20_000


def test_16_bit_weights_give_the_models_numbers(bf16_model, bf16_path):
    inputs = random_inputs(vocab_size=50)
    outputs = run_loaded(bf16_path, inputs)
    expected = tf.function(lambda: bf16_model(inputs, training=False))().numpy()
    np.testing.assert_allclose(outputs["logits"], expected, rtol=0, atol=1e-3)


def test_16_bit_weights_give_the_models_numbers_of_texts(bf16_model, bf16_paths, tokenizer):
    outputs = run_loaded(bf16_paths["text"], {"text_a": [text for text, _ in TEXTS]})
    expected = expected_of_texts(bf16_model, tokenizer, pairs=False)
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-3)


def test_the_model_keeps_its_own_weights(bf16_model, bf16_path):
    assert {weight.dtype for weight in bf16_model.weights} == {"float32"}


def test_each_weight_is_read_once_however_often_the_block_is_applied(bf16_model, bf16_path):
    signature = tf.saved_model.load(bf16_path).signatures["serving_default"]
    definition = signature.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    reads = sum(node.op == "ReadVariableOp" for node in nodes)
    assert len(bf16_model.weights) == reads


INT8 = ExportDetails(export_weights="int8")


@pytest.fixture(scope="module")
def wide_model():
    # Matrices large enough to be nearly all of a folder.
    config = tiny_config(vocab_size=VOCAB_SIZE, hidden_size=192, intermediate_size=512)
    return AlbertClassifier(AlbertEncoder(config, seed=1), num_classes=3, seed=2)


@pytest.fixture(scope="module")
def int8_paths(wide_model, tokenizer, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("int8"))
    return export(wide_model, SINGLE_TEXTS, tokenizer, folder, INT8)


@pytest.fixture(scope="module")
def int8_path(int8_paths):
    return int8_paths["ids"]


def test_int8_takes_a_quarter(wide_model, int8_path):
    data = pathlib.Path(int8_path, "variables", "variables.data-00000-of-00001").stat().st_size
    assert data < 1.05 * wide_model.count_params() + 20_000


def rounded(model):
    like = type(model).from_config(model.get_config())
    like.set_weights(model.get_weights())
    round_to_int8(like)
    return like


def test_int8_in_16_bits_is_what_is_evaluated(bf16_model):
    exported = make_exported_weights(bf16_model, int8=True)
    matrices = 0
    for weight, evaluated in zip(exported, rounded(bf16_model).weights, strict=True):
        if isinstance(weight, Int8Matrix):
            matrices += 1
            read = weight.read()
            assert read.dtype == tf.bfloat16
            np.testing.assert_array_equal(read, tf.cast(evaluated.value, tf.bfloat16))
    assert matrices > 5


def test_int8_answers_are_those_of_the_rounded_model(wide_model, int8_path):
    inputs = {name: tf.constant(value) for name, value in random_inputs(vocab_size=50).items()}
    exact = wide_model(inputs).numpy()
    rounded_model = rounded(wide_model)
    expected = rounded_model(inputs).numpy()
    np.testing.assert_allclose(run_loaded(int8_path, inputs)["logits"], expected, rtol=0, atol=1e-5)
    assert 1e-5 < np.abs(expected - exact).max() < 0.05
    again = [weight.numpy().copy() for weight in rounded_model.weights]
    round_to_int8(rounded_model)
    for before, after in zip(again, rounded_model.weights, strict=True):
        np.testing.assert_allclose(after.numpy(), before, rtol=1e-6)


def test_int8_answers_of_texts_are_those_of_the_rounded_model(wide_model, int8_paths, tokenizer):
    outputs = run_loaded(int8_paths["text"], {"text_a": [text for text, _ in TEXTS]})
    expected = expected_of_texts(rounded(wide_model), tokenizer, pairs=False)
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)


def test_each_value_is_within_half_a_step_of_its_row_or_column(wide_model):
    for exact, approximate in zip(wide_model.weights, rounded(wide_model).weights, strict=True):
        difference = np.abs(approximate.numpy() - exact.numpy())
        if len(exact.shape) < 2:
            assert not difference.any()
            continue
        axis = 1 if exact.path.endswith("embeddings") else 0
        step = np.abs(exact.numpy()).max(axis=axis, keepdims=True) / 127
        assert (difference <= 0.501 * step).all(), exact.path


def test_saved_model_has_no_float16(wide_model, tokenizer, tmp_path):
    details = ExportDetails(export_weights="float16")
    with pytest.raises(
        InputError,
        match=r"^export_weights=float16: expected export_format=tflite; received saved_model",
    ):
        export(wide_model, SINGLE_TEXTS, tokenizer, str(tmp_path), details)
    assert list(tmp_path.iterdir()) == []
