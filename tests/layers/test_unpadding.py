"""Blocks that compute only real tokens have the same outputs as with padding."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models import AlbertEncoder, AlbertMultipleChoice
from tests.helpers import random_inputs, tiny_config

PAD = 0


def padded_inputs(batch_size=4):
    """Returns inputs (B, 11) of 1 to 11 tokens each, and where the tokens are."""
    inputs = random_inputs(batch_size)
    inputs["input_ids"] = np.maximum(inputs["input_ids"], PAD + 1)
    lengths = np.linspace(1, 11, batch_size).astype(int)[::-1]
    inputs["input_mask"] = (np.arange(11) < lengths[:, None]).astype(np.int32)
    inputs["input_ids"] *= inputs["input_mask"]
    (positions,) = np.nonzero(inputs["input_mask"].ravel())
    return inputs, positions


def without_padding(inputs, positions):
    return {**inputs, "token_positions": positions}


@pytest.mark.parametrize("in_graph", [False, True])
def test_outputs_at_tokens_are_the_same(in_graph):
    encoder = AlbertEncoder(tiny_config(num_hidden_groups=2), seed=1)
    inputs, positions = padded_inputs()
    expected = encoder(inputs)
    outputs = (tf.function(encoder) if in_graph else encoder)(without_padding(inputs, positions))
    is_token = inputs["input_mask"] == 1
    for name in ("sequence_output", "encoder_outputs"):
        ours, theirs = np.asarray(outputs[name]), np.asarray(expected[name])
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(
            ours[..., is_token, :], theirs[..., is_token, :], rtol=0, atol=1e-5
        )
        assert np.isfinite(ours).all()
    np.testing.assert_allclose(
        outputs["pooled_output"], expected["pooled_output"], rtol=0, atol=1e-6
    )


def test_padding_is_not_computed():
    encoder = AlbertEncoder(tiny_config(), seed=1)
    inputs, positions = padded_inputs()
    table = encoder.embedding.word_embeddings
    table.assign(np.where(np.arange(table.shape[0])[:, None] == PAD, np.nan, table))
    assert np.isnan(encoder(inputs)["pooled_output"]).any()
    assert np.isfinite(encoder(without_padding(inputs, positions))["pooled_output"]).all()


@pytest.mark.parametrize("remat", [False, True])
def test_gradients_are_the_same(remat):
    encoder = AlbertEncoder(tiny_config(), remat=remat, seed=1)
    inputs, positions = padded_inputs()
    variables = [variable.value for variable in encoder.trainable_variables]
    of_padded, of_tokens = (
        gradients(encoder, of, variables) for of in (inputs, without_padding(inputs, positions))
    )
    for ours, theirs in zip(of_tokens, of_padded, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def gradients(encoder, inputs, variables):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(encoder(inputs, training=True)["pooled_output"]))
    return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]


def test_multiple_choice():
    model = AlbertMultipleChoice(AlbertEncoder(tiny_config(), seed=1), seed=2)
    flat, positions = padded_inputs(6)
    inputs = {name: ids.reshape(2, 3, -1) for name, ids in flat.items()}
    np.testing.assert_allclose(
        model(without_padding(inputs, positions)), model(inputs), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("shape", [(2, 4), (4, 4), (8, 2)])
def test_mask_of_another_shape_is_refused(shape):
    encoder = AlbertEncoder(tiny_config(), seed=1)
    inputs = {**random_inputs(2, 8), "input_mask": np.ones(shape, np.int32)}
    for given in (inputs, without_padding(inputs, np.arange(16))):
        with pytest.raises(
            (ValueError, tf.errors.InvalidArgumentError), match=r"input_mask: expected int|hapes"
        ):
            encoder(given)


@pytest.mark.parametrize("batch_size", [0, 1])
def test_batches_without_padding(batch_size):
    encoder = AlbertEncoder(tiny_config(), seed=1)
    inputs = {name: ids[:batch_size] for name, ids in random_inputs(2).items()}
    positions = np.arange(batch_size * 11)
    np.testing.assert_allclose(
        encoder(without_padding(inputs, positions))["sequence_output"],
        encoder(inputs)["sequence_output"],
        rtol=0,
        atol=1e-6,
    )
