"""What the heads compute from the encoder's outputs."""

import re
import typing

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.layers.span_heads import make_p_mask
from albert_tf.models import (
    AlbertConditionalSpanLabeler,
    AlbertEmbedder,
    AlbertEncoder,
)
from albert_tf.options.kinds import PoolingName
from tests.helpers import random_inputs, refused, tiny_config

# Spans


def make_labeler(**kwargs):
    encoder = AlbertEncoder(tiny_config(initializer_range=0.2), with_pooler=False, seed=1)
    return AlbertConditionalSpanLabeler(encoder, seed=2, **kwargs)


def test_ends_are_scored_as_in_training_with_the_same_start():
    model = make_labeler(start_n_top=2, end_n_top=3)
    inputs = random_inputs()
    found = {name: output.numpy() for name, output in model(inputs).items()}
    for number in range(2):
        starts = found["start_top_index"][:, number]
        given = model({**inputs, "start_positions": tf.constant(starts)}, training=True)
        scores = given["start_log_probs"].numpy()[np.arange(3), starts]
        np.testing.assert_allclose(found["start_top_log_probs"][:, number], scores, atol=1e-5)
        ends = np.sort(given["end_log_probs"], axis=1)[:, :-4:-1]
        beam = slice(3 * number, 3 * number + 3)
        np.testing.assert_allclose(found["end_top_log_probs"][:, beam], ends, rtol=1e-5, atol=1e-5)


def test_nothing_but_the_passage_and_cls_is_likely():
    model = make_labeler(start_n_top=11, end_n_top=11)
    inputs = random_inputs()
    outputs = model(inputs)
    masked = make_p_mask(inputs["segment_ids"]).numpy() > 0
    hidden = np.take_along_axis(masked, outputs["start_top_index"].numpy(), axis=1)
    assert (outputs["start_top_log_probs"].numpy()[hidden] < -1e29).all()
    assert (outputs["start_top_log_probs"].numpy()[~hidden] > -100).all()
    assert np.exp(outputs["start_top_log_probs"]).sum(axis=1) == pytest.approx([1] * 3, rel=1e-5)


def test_short_inputs_leave_the_rest_of_the_beam_at_cls():
    outputs = make_labeler(start_n_top=14, end_n_top=13)(random_inputs())
    assert outputs["end_top_index"].shape == (3, 14 * 13)
    assert (outputs["start_top_index"].numpy()[:, 11:] == 0).all()
    assert (outputs["start_top_log_probs"].numpy()[:, 11:] < -1e29).all()


def test_dropout_is_before_the_logit_of_answerability_alone():
    model = make_labeler(dropout=0.9)
    inputs = random_inputs() | {"start_positions": np.zeros(3, np.int32)}
    one, two = (model(inputs, training=True) for _ in range(2))
    np.testing.assert_array_equal(one["end_log_probs"], two["end_log_probs"])
    assert (one["cls_logits"].numpy() != two["cls_logits"].numpy()).any()


# Embeddings

POOLINGS = {
    "mean": lambda states: states.mean(axis=0),
    "cls": lambda states: states[0],
    "max": lambda states: states.max(axis=0),
    "mean_sqrt_len_tokens": lambda states: states.sum(axis=0) / np.sqrt(len(states)),
    "weightedmean": lambda states: np.average(states, axis=0, weights=1 + np.arange(len(states))),
    "lasttoken": lambda states: states[-1],
}


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder(tiny_config(num_hidden_layers=3, initializer_range=0.2), seed=1)


def expected_of(encoder, inputs, pooling):
    outputs = np.array(encoder(inputs)["sequence_output"], np.float64)  # (B, S, H)
    masks = inputs["input_mask"].astype(bool)
    return np.array([POOLINGS[pooling](row[m]) for row, m in zip(outputs, masks, strict=True)])


def test_several_poolings_are_joined(encoder):
    inputs = random_inputs()
    model = AlbertEmbedder(encoder, "cls+mean+lasttoken")
    parts = [expected_of(encoder, inputs, name) for name in ("cls", "mean", "lasttoken")]
    np.testing.assert_allclose(model(inputs), np.hstack(parts), rtol=0, atol=1e-5)
    assert model.compute_output_shape((3, 11)) == (3, 144)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_poolings_equal_numpy(encoder, pooling):
    inputs = random_inputs()
    model = AlbertEmbedder(encoder, pooling)
    expected = expected_of(encoder, inputs, pooling)
    np.testing.assert_allclose(model(inputs), expected, rtol=0, atol=1e-5)
    assert model.compute_output_shape((3, 11)) == (3, 48)
    plain = np.array(AlbertEmbedder(encoder, pooling)(inputs))
    normalized = AlbertEmbedder(encoder, pooling, normalize=True)(inputs)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(normalized, plain / lengths, rtol=0, atol=1e-6)


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


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_sequence_of_padding_alone_gives_numbers(encoder, pooling):
    inputs = random_inputs()
    inputs["input_mask"][0] = 0
    assert np.isfinite(AlbertEmbedder(encoder, pooling, normalize=True)(inputs)).all()
    if pooling != "cls":
        np.testing.assert_array_equal(AlbertEmbedder(encoder, pooling)(inputs)[0], np.zeros(48))


def test_refuses_an_unknown_pooling(encoder):
    known = typing.get_args(PoolingName)
    assert {*known} == {*POOLINGS}
    for pooling in ("mean+cls", "cls+cls", "cls+", "median", ""):
        expected = rf"{', '.join(known)}, or several in this order with \+ between two$"
        with refused(rf"^pooling='{re.escape(pooling)}': expected one of {expected}"):
            AlbertEmbedder(encoder, pooling)


def test_a_projection_is_kept(encoder, tmp_path):
    layers = [keras.layers.Dense(7, activation="tanh"), keras.layers.LayerNormalization()]
    model = AlbertEmbedder(encoder, normalize=True, projection=layers)
    inputs = random_inputs()
    expected = model(inputs)
    assert expected.shape == (3, 7)
    model.save(tmp_path / "embedder.keras")
    again = keras.models.load_model(tmp_path / "embedder.keras")
    np.testing.assert_allclose(again(inputs), expected, rtol=0, atol=1e-6)
