import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.losses import PretrainingLoss, batch_loss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from tests.helpers import random_inputs, random_pretraining_batches, tiny_config


def make_inputs():
    positions = np.array([[0, 3, 9, 9], [1, 2, 10, 4], [5, 5, 0, 2]], np.int32)
    return {**random_inputs(), "masked_lm_positions": positions}


@pytest.mark.parametrize(
    ("sharing", "options"),
    [
        *((sharing, {}) for sharing in ("all", "attention", "ffn", "none")),
        *(("all", {option: True}) for option in ("remat", "skips_padding")),
    ],
)
def test_last_layer_at_the_read_positions_learns_as_at_all(sharing, options):
    (batch,) = random_pretraining_batches(1, batch_size=3).as_numpy_iterator()
    batch["input_mask"] = np.arange(11) < np.array([[11], [10], [11]])
    config = tiny_config(sharing=sharing, num_hidden_layers=2)
    encoder = AlbertEncoder(config, remat="remat" in options, seed=1)
    model = AlbertPretrainer(encoder, seed=2)

    def everywhere(inputs):
        encoded = encoder(inputs, training=True)
        states = tf.gather(encoded["sequence_output"], batch["masked_lm_positions"], batch_dims=1)
        return {
            "masked_lm_logits": model.masked_lm_head(states, encoder.embedding.word_embeddings),
            "sentence_order_logits": model.sentence_order_head(encoded["pooled_output"]),
        }

    inputs = model.without_padding(batch) if "skips_padding" in options else batch
    found = []
    for call in (functools.partial(model, training=True), everywhere):
        with tf.GradientTape() as tape:
            loss = batch_loss(PretrainingLoss(), batch, call(inputs))
        gradients = tape.gradient(loss, model.trainable_variables)
        found.append([loss, *map(tf.convert_to_tensor, gradients)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_unused_predictions_have_no_effect_wherever_they_point():
    (batch,) = random_pretraining_batches(1, batch_size=3).as_numpy_iterator()
    unused = batch["masked_lm_weights"] == 0
    assert 0 < unused.sum() < unused.size
    model = AlbertPretrainer(AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1), seed=2)
    found = []
    for position, piece in ((0, 0), (7, 90)):
        positions = np.where(unused, position, batch["masked_lm_positions"])
        ids = np.where(unused, piece, batch["masked_lm_ids"])
        changed = {**batch, "masked_lm_positions": positions, "masked_lm_ids": ids}
        with tf.GradientTape() as tape:
            outputs = model(changed, training=True)
            loss = batch_loss(PretrainingLoss(), changed, outputs)
        gradients = tape.gradient(loss, model.trainable_variables)
        means = PretrainingLoss().metrics(changed, outputs)
        found.append([loss, *tf.nest.flatten(means), *map(tf.convert_to_tensor, gradients)])
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-7)


def test_word_table_is_input_and_output():
    model = AlbertPretrainer(AlbertEncoder(tiny_config(), seed=1), seed=2)
    assert sum(weight.shape == (97, 16) for weight in model.weights) == 1
    before = np.asarray(model(make_inputs())["masked_lm_logits"])
    table = model.encoder.embedding.word_embeddings
    unused = next(piece for piece in range(97) if piece not in make_inputs()["input_ids"])
    values = table.numpy()
    values[unused] *= 3.0
    table.assign(values)
    after = np.asarray(model(make_inputs())["masked_lm_logits"])
    changed = np.abs(after - before).max(axis=(0, 1)) > 1e-6
    assert changed[unused]
    assert changed.sum() == 1


def test_without_sentence_head():
    model = AlbertPretrainer(AlbertEncoder(tiny_config()), sentence_head=False)
    assert set(model(make_inputs())) == {"masked_lm_logits"}
    assert not any("sentence_order_head" in weight.path for weight in model.weights)
