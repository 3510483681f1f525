"""Poolings of `AlbertEmbedder` against NumPy, and what holds for all of them."""

import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.models import AlbertEmbedder, AlbertEncoder
from tests.helpers import random_inputs, tiny_config

POOLINGS = ("mean", "cls", "weighted_layers")


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder(tiny_config(num_hidden_layers=3, initializer_range=0.2), seed=1)


def expected_of(encoder, inputs, pooling, layer_weights=None):
    outputs = np.array(encoder(inputs)["encoder_outputs"], np.float64)  # (L, B, S, H)
    if pooling == "cls":
        return outputs[-1, :, 0]
    mask = inputs["input_mask"].astype(bool)
    means = np.array(
        [[row[m].mean(axis=0) for row, m in zip(x, mask, strict=True)] for x in outputs]
    )
    if pooling == "mean":
        return means[-1]
    shares = np.exp(layer_weights) / np.exp(layer_weights).sum()
    return np.einsum("l,lbh->bh", shares, means)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_poolings_equal_numpy(encoder, pooling):
    inputs = random_inputs()
    model = AlbertEmbedder(encoder, pooling)
    weights = np.array([0.3, -1.0, 0.7], np.float32)
    if pooling == "weighted_layers":
        # Before training, all layers have the same weight.
        expected = expected_of(encoder, inputs, pooling, np.zeros(3))
        np.testing.assert_allclose(model(inputs), expected, rtol=0, atol=1e-5)
        model.embedding_head.layer_weights.assign(weights)
    assert len(model.weights) == len(encoder.weights) + (pooling == "weighted_layers")
    expected = expected_of(encoder, inputs, pooling, weights)
    np.testing.assert_allclose(model(inputs), expected, rtol=0, atol=1e-5)
    assert model.compute_output_shape((3, 11)) == (3, 48)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_normalized_embeddings_have_length_1_and_the_same_direction(encoder, pooling):
    inputs = random_inputs()
    plain = np.array(AlbertEmbedder(encoder, pooling)(inputs))
    received = np.array(AlbertEmbedder(encoder, pooling, normalize=True)(inputs))
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(received, plain / lengths, rtol=0, atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_and_the_way_it_is_computed_do_not_matter(encoder, pooling):
    model, inputs = AlbertEmbedder(encoder, pooling), random_inputs()
    expected = np.array(model(inputs))
    alone = {name: ids[-1:, :5] for name, ids in inputs.items()}
    np.testing.assert_allclose(model(alone)[0], expected[-1], rtol=0, atol=1e-5)
    positions = np.flatnonzero(inputs["input_mask"]).astype(np.int32)
    unpadded = model({**inputs, "token_positions": positions})
    np.testing.assert_allclose(unpadded, expected, rtol=0, atol=1e-5)
    # Without a mask there is no padding.
    whole = {**inputs, "input_mask": np.ones_like(inputs["input_mask"])}
    del inputs["input_mask"]
    np.testing.assert_allclose(model(inputs), model(whole), rtol=0, atol=1e-6)


def test_a_sequence_of_padding_alone_gives_numbers(encoder):
    inputs = random_inputs()
    inputs["input_mask"][0] = 0
    assert np.isfinite(AlbertEmbedder(encoder, "mean", normalize=True)(inputs)).all()


def test_float32_from_bfloat16():
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=1), seed=1, dtype="mixed_bfloat16")
    model = AlbertEmbedder(encoder, "weighted_layers", dtype="mixed_bfloat16")
    assert model(random_inputs()).dtype == "float32"


def test_keras_files_keep_everything(encoder, tmp_path):
    model = AlbertEmbedder(encoder, "weighted_layers", normalize=True)
    model.embedding_head.layer_weights.assign([1, 2, 3])
    model.save(tmp_path / "model.keras")
    inputs = random_inputs()
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))


def test_refuses_an_unknown_pooling(encoder):
    with pytest.raises(
        InputError, match=r"^pooling='max': expected one of mean, cls, weighted_lay"
    ):
        AlbertEmbedder(encoder, "max")
