"""Sums and metrics of the losses. Other tests compare their values with Keras's and the original's."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.losses import (
    ClassificationLoss,
    ContrastiveLoss,
    CosentLoss,
    MaskedLM,
    Mean,
    MultiLabelLoss,
    Objective,
    PretrainingLoss,
    SentenceOrder,
    TokenClassificationLoss,
    batch_loss,
)
from tests.helpers import random_pretraining_batches


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


@pytest.fixture
def batch():
    return next(iter(random_pretraining_batches(1)))


@pytest.fixture
def outputs():
    rng = np.random.default_rng(3)
    return {
        "masked_lm_logits": tf.constant(rng.normal(size=(8, 4, 97)), tf.float32),
        "sentence_order_logits": tf.constant(rng.normal(size=(8, 2)), tf.float32),
    }


def test_parts_of_a_batch_add_up_to_its_loss(batch, outputs):
    loss = PretrainingLoss()
    whole = batch_loss(loss, batch, outputs)
    weights = loss.weights(batch)
    parts = []
    for rows in (slice(0, 3), slice(3, 8)):
        part = {name: value[rows] for name, value in batch.items()}
        means = loss.metrics(part, {name: value[rows] for name, value in outputs.items()})
        parts.append(loss.total(means, weights))
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-6)


def test_rows_that_fill_up_a_batch_do_not_count(batch, outputs):
    filled = {
        name: tf.concat([value[:5], tf.zeros_like(value[5:])], axis=0)
        for name, value in batch.items()
    }
    part = {name: value[:5] for name, value in batch.items()}
    received = PretrainingLoss().metrics(filled, outputs)
    expected = PretrainingLoss().metrics(part, {name: value[:5] for name, value in outputs.items()})
    assert received.keys() == expected.keys()
    for name, (total, weight) in expected.items():
        np.testing.assert_allclose(received[name].total, total, rtol=1e-6)
        np.testing.assert_allclose(received[name].weight, weight)


def test_without_predictions_the_masked_lm_loss_is_zero(batch, outputs):
    loss = PretrainingLoss([MaskedLM()])
    empty = {**batch, "masked_lm_weights": tf.zeros_like(batch["masked_lm_weights"])}
    assert float(batch_loss(loss, empty, outputs)) == 0.0


def test_without_sentence_objective_its_labels_do_not_count(batch, outputs):
    loss = PretrainingLoss([MaskedLM()])
    other = {**batch, "next_sentence_labels": 1 - batch["next_sentence_labels"]}
    assert float(batch_loss(loss, batch, outputs)) == float(batch_loss(loss, other, outputs))
    assert set(loss.metrics(batch, outputs)) == {"masked_lm_loss", "masked_lm_accuracy"}


def test_weights_of_objectives_count_in_the_loss_only(batch, outputs):
    loss = PretrainingLoss([MaskedLM(weight=0.5), SentenceOrder(weight=3.0)])
    means = loss.metrics(batch, outputs)
    expected = PretrainingLoss().metrics(batch, outputs)
    metrics = {name: float(total / weight) for name, (total, weight) in means.items()}
    assert metrics == {name: float(total / weight) for name, (total, weight) in expected.items()}
    derived = loss.derive(metrics)
    total = 0.5 * metrics["masked_lm_loss"] + 3.0 * metrics["sentence_order_loss"]
    assert derived == {
        "loss": total,
        "perplexity": pytest.approx(np.exp(metrics["masked_lm_loss"])),
    }
    np.testing.assert_allclose(batch_loss(loss, batch, outputs), total, rtol=1e-6)


def test_perplexity_of_a_diverging_run_is_a_number_that_reports_can_hold():
    # TensorBoard's are float32; in metrics.jsonl an infinite one would be no JSON.
    for loss in (88.0, 1e5):
        perplexity = PretrainingLoss([MaskedLM()]).derive({"masked_lm_loss": loss})["perplexity"]
        assert 1e38 < perplexity < np.finfo(np.float32).max


class ReplacedTokens(Objective):
    """Cross-entropy of which predictions are right, given `replaced_logits` (B, M)."""

    NAME = "replaced_tokens"

    def weights(self, batch):
        return {"predictions": tf.reduce_sum(batch["masked_lm_weights"])}

    def metrics(self, batch, outputs):
        logits, mask = outputs["replaced_logits"], batch["masked_lm_weights"]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.ones_like(logits), logits)
        mean = Mean(tf.reduce_sum(losses * mask), tf.reduce_sum(mask))
        return {"replaced_tokens_loss": mean, "other_loss": mean}

    def total(self, means, weights):
        return means["replaced_tokens_loss"].total / weights["predictions"]


def test_own_objective_counts_with_its_weight_and_further_means_do_not(batch, outputs):
    outputs = {**outputs, "replaced_logits": tf.constant(np.ones((8, 4)), tf.float32)}
    loss = PretrainingLoss([MaskedLM(), ReplacedTokens(weight=10.0)])
    means = loss.metrics(batch, outputs)
    metrics = {name: float(total / weight) for name, (total, weight) in means.items()}
    expected = metrics["masked_lm_loss"] + 10.0 * float(np.log1p(np.exp(-1.0)))
    assert loss.derive(metrics)["loss"] == pytest.approx(expected)
    np.testing.assert_allclose(batch_loss(loss, batch, outputs), expected, rtol=1e-5)


def test_weights_of_classes_count_in_the_loss_only():
    loss = ClassificationLoss([0.5, 1.0, 4.0])
    logits = tf.constant([[2.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 3.0, 0.0]])
    batch = {"label_ids": tf.constant([0, 2, 1])}
    of_rows = -log_softmax(logits.numpy())[range(3), [0, 2, 1]]
    expected = (of_rows * [0.5, 4.0, 1.0]).sum() / 3
    np.testing.assert_allclose(batch_loss(loss, batch, logits), expected, rtol=1e-6)
    total, weight = loss.metrics(batch, logits)["accuracy"]
    assert (float(total), float(weight)) == (2.0, 3.0)


@pytest.mark.parametrize("weights", [(), (0.5, 1.0, 4.0)])
def test_smoothed_labels_count_in_the_loss_only(weights):
    loss = ClassificationLoss(weights, label_smoothing=0.1)
    logits = tf.constant([[2.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 3.0, 0.0]])
    labels = [0, 2, 1]
    batch = {"label_ids": tf.constant(labels)}
    targets = 0.9 * np.eye(3)[labels] + 0.1 / 3
    of_rows = -(targets * log_softmax(logits.numpy())).sum(axis=-1)
    expected = (of_rows * np.array(weights or (1.0, 1.0, 1.0))[labels]).sum() / 3
    np.testing.assert_allclose(batch_loss(loss, batch, logits), expected, rtol=1e-6)
    total, weight = loss.metrics(batch, logits)["accuracy"]
    assert (float(total), float(weight)) == (2.0, 3.0)


def test_multi_label_loss_is_the_mean_of_binary_cross_entropies():
    logits = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    labels = np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], np.float32)
    probabilities = 1 / (1 + np.exp(-logits))
    expected = -np.log(np.where(labels == 1, probabilities, 1 - probabilities)).mean()
    received = batch_loss(MultiLabelLoss(), {"label_ids": labels}, logits)
    np.testing.assert_allclose(received, expected, rtol=1e-6)


def test_token_loss_of_parts_and_of_nothing():
    logits = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)  # (B, S, classes)
    labels = np.array([[0, -1, 3, -1, -1], [-1] * 5, [2, 1, -1, -1, 0]])
    loss, batch = TokenClassificationLoss(), {"label_ids": tf.constant(labels)}
    parts = [
        loss.total(loss.metrics({"label_ids": labels[row]}, logits[row]), loss.weights(batch))
        for row in range(3)
    ]
    np.testing.assert_allclose(sum(parts), batch_loss(loss, batch, logits), rtol=1e-6)
    assert float(parts[1]) == 0.0


def unit_rows(count, width=7, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_contrastive_loss_is_that_of_finding_the_pair_in_the_batch():
    embeddings = unit_rows(10)
    expected = -log_softmax(embeddings[::2] @ embeddings[1::2].T / 0.2)[range(5), range(5)].mean()
    batch = {"input_ids": tf.zeros((10, 3), tf.int32)}
    received = batch_loss(ContrastiveLoss(temperature=0.2), batch, tf.constant(embeddings))
    np.testing.assert_allclose(received, expected, rtol=1e-5)
    same = tf.constant(embeddings[:5].repeat(2, axis=0))
    means = ContrastiveLoss(temperature=0.05).metrics(batch, same)
    assert means["accuracy"].total == means["accuracy"].weight == 5


def test_contrastive_loss_of_triplets_has_the_negatives_of_all():
    embeddings = unit_rows(15)
    first, second, negative = (embeddings[place::3] for place in range(3))
    logits = first @ np.concatenate([second, negative]).T / 0.2
    expected = -log_softmax(logits)[range(5), range(5)].mean()
    batch = {"input_ids": tf.zeros((15, 3), tf.int32)}
    received = batch_loss(ContrastiveLoss(0.2, num_texts=3), batch, tf.constant(embeddings))
    np.testing.assert_allclose(received, expected, rtol=1e-5)


def cosent_of(embeddings, scores):
    """Returns the loss as its paper writes it, a term for each two pairs in the wrong order."""
    cosines = (embeddings[::2] * embeddings[1::2]).sum(axis=1) / 0.05
    terms = [
        np.exp(cosines[low] - cosines[high])
        for high, higher in enumerate(scores)
        for low, lower in enumerate(scores)
        if higher > lower
    ]
    return np.log1p(sum(terms))


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8), st.integers(0, 99))
def test_cosent_loss_is_that_of_cosines_in_another_order_than_scores(scores, seed):
    embeddings = unit_rows(2 * len(scores), seed=seed)
    received = [
        batch_loss(
            CosentLoss(temperature=0.05),
            {"label_ids": tf.constant(values, tf.float32)},
            tf.constant(embeddings),
        )
        # Only their order counts.
        for values in (scores, np.exp(scores))
    ]
    np.testing.assert_allclose(received, cosent_of(embeddings, scores), rtol=1e-4, atol=1e-5)


def test_cosent_loss_leaves_out_pairs_without_a_score():
    embeddings = unit_rows(8)
    batch = {"label_ids": tf.constant([2.0, 0.0, 3.0, 1.0])}
    some = {**batch, "label_weights": tf.constant([1.0, 0.0, 1.0, 1.0])}
    received = CosentLoss(temperature=0.05).metrics(some, tf.constant(embeddings))["loss"]
    expected = cosent_of(np.delete(embeddings, [2, 3], axis=0), [2, 3, 1])
    np.testing.assert_allclose(received.total / received.weight, expected, rtol=1e-4)
    assert received.weight == 3


def test_losses_of_embeddings_are_those_of_sentence_transformers():
    pytest.importorskip("sentence_transformers", reason="needs the group parity")
    import torch
    from sentence_transformers.sentence_transformer import losses

    embeddings = unit_rows(15)
    sides = [torch.tensor(embeddings[place::3]) for place in range(3)]
    batch = {"input_ids": tf.zeros((15, 3), tf.int32)}
    received = batch_loss(ContrastiveLoss(0.05, num_texts=3), batch, tf.constant(embeddings))
    theirs = losses.MultipleNegativesRankingLoss(None, scale=20.0)
    expected = theirs.compute_loss_from_embeddings(sides, None)
    np.testing.assert_allclose(received, expected, rtol=1e-5)

    scores, pairs = [0.5, 2.0, -1.0, 2.0, 7.0], np.stack([embeddings[::3], embeddings[1::3]], 1)
    batch = {"label_ids": tf.constant(scores)}
    received = batch_loss(CosentLoss(temperature=0.05), batch, tf.constant(pairs.reshape(10, -1)))
    theirs = losses.CoSENTLoss(None, scale=20.0)
    expected = theirs.compute_loss_from_embeddings(sides[:2], torch.tensor(scores))
    np.testing.assert_allclose(received, expected, rtol=1e-5)
