import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.layers import make_p_mask
from albert_tf.models import AlbertConditionalSpanLabeler, AlbertEncoder
from tests.helpers import random_inputs, tiny_config


def make_model(**kwargs):
    encoder = AlbertEncoder(tiny_config(initializer_range=0.2), with_pooler=False, seed=1)
    return AlbertConditionalSpanLabeler(encoder, seed=2, **kwargs)


def test_p_mask_is_open_at_cls_and_in_the_passage():
    segments = tf.constant([[0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1, 1]])
    assert make_p_mask(segments).numpy().tolist() == [
        [0, 1, 1, 0, 0, 1, 1, 1],
        [0, 1, 0, 0, 0, 0, 0, 1],
    ]


def test_ends_are_scored_as_in_training_with_the_same_start():
    model = make_model(start_n_top=2, end_n_top=3)
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
    model = make_model(start_n_top=11, end_n_top=11)
    inputs = random_inputs()
    outputs = model(inputs)
    masked = make_p_mask(inputs["segment_ids"]).numpy() > 0
    hidden = np.take_along_axis(masked, outputs["start_top_index"].numpy(), axis=1)
    assert (outputs["start_top_log_probs"].numpy()[hidden] < -1e29).all()
    assert (outputs["start_top_log_probs"].numpy()[~hidden] > -100).all()
    assert np.exp(outputs["start_top_log_probs"]).sum(axis=1) == pytest.approx([1] * 3, rel=1e-5)


def test_short_inputs_leave_the_rest_of_the_beam_at_cls():
    outputs = make_model(start_n_top=14, end_n_top=13)(random_inputs())
    assert outputs["end_top_index"].shape == (3, 14 * 13)
    assert (outputs["start_top_index"].numpy()[:, 11:] == 0).all()
    assert (outputs["start_top_log_probs"].numpy()[:, 11:] < -1e29).all()


def test_dropout_is_before_the_logit_of_answerability_alone():
    model = make_model(dropout=0.9)
    inputs = random_inputs() | {"start_positions": np.zeros(3, np.int32)}
    one, two = (model(inputs, training=True) for _ in range(2))
    np.testing.assert_array_equal(one["end_log_probs"], two["end_log_probs"])
    assert (one["cls_logits"].numpy() != two["cls_logits"].numpy()).any()


def test_keras_file_gives_the_model_back(tmp_path):
    model = make_model(start_n_top=3, end_n_top=4)
    outputs = model(random_inputs())
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for name, output in loaded(random_inputs()).items():
        np.testing.assert_array_equal(output, outputs[name])


def test_scores_are_float32_under_mixed_precision():
    encoder = AlbertEncoder(tiny_config(), dtype="mixed_bfloat16")
    outputs = AlbertConditionalSpanLabeler(encoder, dtype="mixed_bfloat16")(random_inputs())
    assert {output.dtype for output in outputs.values()} == {tf.float32, tf.int32}
