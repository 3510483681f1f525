"""Other ways to compute an encoder, such as real tokens alone, have the same outputs and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models import AlbertEncoder, AlbertMultipleChoice
from tests.helpers import random_inputs, tiny_config

PAD = 0


def padded_inputs(batch_size=4):
    """Returns inputs (B, 11) of 1 to 11 tokens each, and the same with the places of the tokens."""
    inputs = random_inputs(batch_size)
    lengths = np.linspace(11, 1, batch_size).astype(int)
    inputs["input_mask"] = (np.arange(11) < lengths[:, None]).astype(np.int32)
    inputs["input_ids"] = np.maximum(inputs["input_ids"], PAD + 1) * inputs["input_mask"]
    return inputs, {**inputs, "token_positions": np.flatnonzero(inputs["input_mask"])}


def test_outputs_at_tokens_are_the_same_in_a_graph():
    encoder = AlbertEncoder(tiny_config(num_hidden_groups=2), seed=1)
    inputs, of_tokens = padded_inputs()
    expected, outputs = encoder(inputs), tf.function(encoder)(of_tokens)
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
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1)
    inputs, of_tokens = padded_inputs()
    table = encoder.embedding.word_embeddings
    table.assign(np.where(np.arange(table.shape[0])[:, None] == PAD, np.nan, table))
    assert np.isnan(encoder(inputs)["pooled_output"]).any()
    assert np.isfinite(encoder(of_tokens)["pooled_output"]).all()


@pytest.mark.parametrize(
    ("options", "is_unpadded"),
    [({"use_one_hot_embeddings": True}, False), ({}, True), ({"remat": True}, True)],
)
def test_gradients_are_the_same(options, is_unpadded):
    config = tiny_config(num_hidden_layers=3)
    padded, of_tokens = padded_inputs()
    found = []
    for options_of, inputs in ((options, of_tokens if is_unpadded else padded), ({}, padded)):
        encoder = AlbertEncoder(config, **options_of, seed=1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(encoder(inputs, training=True)["pooled_output"]))
        found.append(tape.gradient(loss, [v.value for v in encoder.trainable_variables]))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(*map(tf.convert_to_tensor, (ours, theirs)), rtol=0, atol=1e-5)


def test_multiple_choice():
    model = AlbertMultipleChoice(AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1), seed=2)
    flat, of_tokens = padded_inputs(6)
    inputs = {name: ids.reshape(2, 3, -1) for name, ids in flat.items()}
    received = model({**inputs, "token_positions": of_tokens["token_positions"]})
    np.testing.assert_allclose(received, model(inputs), rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch_size", [0, 1])
def test_batches_without_padding(batch_size):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1)
    inputs = {name: ids[:batch_size] for name, ids in random_inputs(2).items()}
    outputs = encoder({**inputs, "token_positions": np.arange(batch_size * 11)})["sequence_output"]
    np.testing.assert_allclose(outputs, encoder(inputs)["sequence_output"], rtol=0, atol=1e-6)
