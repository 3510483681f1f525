"""Replaced-token detection: what is replaced, the losses, and whose loss teaches what."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.losses import MaskedLM, PretrainingLoss, ReplacedTokens, batch_loss
from albert_tf.models import AlbertEncoder
from albert_tf.models.electra import ElectraPretrainer, generator_config
from tests.helpers import (
    assert_share,
    random_pretraining_batches,
    tiny_config,
)


def make_model(**changes):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2, **changes), seed=1)
    return ElectraPretrainer(encoder, seed=2)


@pytest.fixture
def batch():
    """A batch with unused predictions, and each position at most once."""
    (read,) = random_pretraining_batches(1).as_numpy_iterator()
    batch = {name: values.copy() for name, values in read.items()}
    order = np.argsort(np.random.default_rng(1).random(batch["input_ids"].shape), axis=1)
    return {**batch, "masked_lm_positions": order[:, :4].astype(np.int32)}


def let_generator_draw(model, probabilities):
    """Makes the generator predict these pieces with these probabilities, whatever the text."""
    head = model.generator.masked_lm_head
    head.layer_norm.gamma.assign(tf.zeros(16))
    logits = np.full(97, -1e9)
    for piece, probability in probabilities.items():
        logits[piece] = np.log(probability)
    head.output_bias.assign(logits)


def test_a_piece_that_is_drawn_as_it_was_is_an_original_one(batch):
    model = make_model()
    let_generator_draw(model, {50: 1.0})
    batch["masked_lm_ids"][:, ::2] = 50
    batch["masked_lm_ids"][:, 1::2] = 51
    is_used = batch["masked_lm_weights"] > 0
    expected = np.zeros((8, 11), bool)
    for row, slot in zip(*np.nonzero(is_used), strict=True):
        expected[row, batch["masked_lm_positions"][row, slot]] = slot % 2
    assert 0 < expected.sum() < is_used.sum() < is_used.size
    outputs = model(batch, training=True)
    np.testing.assert_array_equal(outputs["is_replaced"], expected)

    # The encoder reads the text with the drawn pieces.
    ids = batch["input_ids"].copy()
    for row, slot in zip(*np.nonzero(is_used), strict=True):
        ids[row, batch["masked_lm_positions"][row, slot]] = 50
    states = model.encoder({**batch, "input_ids": ids})["sequence_output"]
    logits = model.replaced_token_head(states)
    np.testing.assert_allclose(outputs["replaced_token_logits"], logits, rtol=0, atol=1e-5)


def test_pieces_are_drawn_by_their_probabilities_anew_in_training_alone(batch):
    model = make_model()
    let_generator_draw(model, {50: 0.3, 51: 0.7})
    many = {name: np.repeat(values, 100, axis=0) for name, values in batch.items()}
    many["masked_lm_ids"][:] = 51
    one, other, *evaluated = (
        np.asarray(model(many, training=training)["is_replaced"])
        for training in (True, True, False, False)
    )
    for each in (one, evaluated[0]):
        assert_share(each.sum(), int(many["masked_lm_weights"].sum()), expected=0.3)
    assert (one != other).any()
    np.testing.assert_array_equal(*evaluated)


def test_a_loss_that_is_not_finite_reaches_the_trainer(batch):
    # Which skips the update; TensorFlow draws a piece beyond the vocabulary on CPUs.
    model = make_model()
    model.generator.masked_lm_head.output_bias.assign(np.full(97, np.nan))
    outputs = model(batch, training=True)
    assert np.isnan(batch_loss(PretrainingLoss([MaskedLM(), ReplacedTokens()]), batch, outputs))


def test_the_generator_recomputes_activations_as_the_encoder_does(batch):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2), remat=True, seed=1)
    model = ElectraPretrainer(encoder, seed=2)
    assert model.generator.encoder.remat
    np.testing.assert_array_equal(*(x(batch)["masked_lm_logits"] for x in (model, make_model())))


def test_loss_and_metrics_are_those_of_each_token(batch):
    outputs = {**make_model()(batch)}
    logits, targets = np.random.default_rng(2).normal(size=(2, 8, 11)).astype(np.float32)
    targets = targets > 0
    outputs |= {"replaced_token_logits": logits, "is_replaced": targets}
    is_token = batch["input_mask"] == 1
    assert not is_token.all()
    logits, targets = logits[is_token], targets[is_token]
    probabilities = 1 / (1 + np.exp(-logits))
    expected = -np.log(np.where(targets, probabilities, 1 - probabilities)).mean()

    objective = ReplacedTokens()
    found = objective.metrics(batch, outputs)
    metrics = {name: float(total / weight) for name, (total, weight) in found.items()}
    assert metrics == {
        "replaced_token_loss": pytest.approx(expected),
        "replaced_token_accuracy": pytest.approx(((logits > 0) == targets).mean()),
        "replaced_token_precision": pytest.approx(targets[logits > 0].mean()),
        "replaced_token_recall": pytest.approx((logits > 0)[targets].mean()),
    }
    masked_lm = float(batch_loss(PretrainingLoss([MaskedLM()]), batch, outputs))
    loss = batch_loss(PretrainingLoss([MaskedLM(), ReplacedTokens(50.0)]), batch, outputs)
    assert float(loss) == pytest.approx(masked_lm + 50 * expected, rel=1e-6)


def names_of(gradients):
    return {variable.path for variable, gradient in gradients if gradient is not None}


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
def test_each_loss_teaches_its_own_layers_and_both_the_embedding(batch, sharing):
    model = make_model(sharing=sharing)
    variables = model.trainable_variables
    reached = {}
    for objective in (MaskedLM(), ReplacedTokens()):
        with tf.GradientTape() as tape:
            loss = batch_loss(PretrainingLoss([objective]), batch, model(batch, training=True))
        gradients = tape.gradient(loss, variables)
        reached[objective.NAME] = names_of(zip(variables, gradients, strict=True))
    tables = {v.path for v in variables if "albert_encoder/embedding/" in v.path}
    tables = {path for path in tables if "/projection/" not in path}
    generator = {v.path for v in variables if "/generator/" in v.path}
    assert reached["masked_lm"] == tables | generator
    rest = {v.path for v in variables if "/pooler/" in v.path or "sentence_order" in v.path}
    assert reached["replaced_token"] == {v.path for v in variables} - generator - rest


def test_the_word_table_is_one_variable():
    model = make_model()
    assert sum(weight.shape == (97, 16) for weight in model.weights) == 1
    table = model.encoder.embedding.word_embeddings
    assert model.generator.encoder.embedding.word_embeddings is table


@pytest.mark.parametrize(
    ("preset", "share", "sizes"),
    [
        # Clark et al. 2020, table 6: a quarter of small and of large, a third of base.
        (
            {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
            1 / 4,
            (64, 1, 256),
        ),
        (
            {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
            1 / 3,
            (256, 4, 1024),
        ),
        (
            {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1152},
            1 / 4,
            (96, 2, 288),
        ),
    ],
)
def test_sizes_of_generators(preset, share, sizes):
    config = AlbertConfig(vocab_size=97, num_hidden_layers=12, num_hidden_groups=12, **preset)
    made = generator_config(config, share, 0.5)
    assert (made.hidden_size, made.num_attention_heads, made.intermediate_size) == sizes
    assert (made.num_hidden_layers, made.num_hidden_groups) == (6, 6)
    assert generator_config(config, 1.0, 1.0) == config
    tiny = dataclasses.replace(config, num_hidden_layers=1, num_hidden_groups=1)
    assert generator_config(tiny, 1e-6, 1e-6).hidden_size == 1
