"""The losses of a student against NumPy: the teacher's part, that of labels, and rows without a label."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.losses import (
    ClassificationLoss,
    ContrastiveLoss,
    MultiLabelLoss,
    RegressionLoss,
    TaughtClassificationLoss,
    TaughtEmbeddingLoss,
    TaughtMultiLabelLoss,
    TaughtRegressionLoss,
    TaughtTokenClassificationLoss,
    TokenClassificationLoss,
    batch_loss,
)
from tests.losses.test_losses import log_softmax

rng = np.random.default_rng(0)
LOGITS = rng.normal(size=(5, 3)).astype(np.float32)
PROBABILITIES = rng.dirichlet(np.ones(3), size=5).astype(np.float32)
HAS_LABEL = np.array([1, 0, 1, 1, 0], np.float32)
WEIGHT = 0.3


def tensors(batch):
    return {name: tf.constant(values) for name, values in batch.items()}


def sigmoid_loss(targets, logits):
    return (np.logaddexp(0, logits) - targets * logits).mean(axis=-1)


IDS = np.array([2, 0, 1, 0, 0], np.int32)
SETS = (rng.random((5, 3)) < 0.5).astype(np.float32)
SCORES = rng.normal(size=5).astype(np.float32) * 20
CASES = {
    "classification": (
        TaughtClassificationLoss(ClassificationLoss(), WEIGHT),
        {"label_ids": IDS, "teacher_targets": PROBABILITIES},
        LOGITS,
        -log_softmax(LOGITS)[np.arange(5), IDS],
        -(PROBABILITIES * log_softmax(LOGITS)).sum(axis=-1),
    ),
    "multi_label": (
        TaughtMultiLabelLoss(MultiLabelLoss(), WEIGHT),
        {"label_ids": SETS, "teacher_targets": PROBABILITIES},
        LOGITS,
        sigmoid_loss(SETS, LOGITS),
        sigmoid_loss(PROBABILITIES, LOGITS),
    ),
    "regression": (
        TaughtRegressionLoss(RegressionLoss(7.0, 20.0), WEIGHT),
        {"label_ids": SCORES, "teacher_targets": SCORES[::-1, None].copy()},
        LOGITS[:, :1],
        (LOGITS[:, 0] - (SCORES - 7) / 20) ** 2,
        (LOGITS[:, 0] - (SCORES[::-1] - 7) / 20) ** 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_with_a_label_learn_both(name):
    loss, batch, outputs, of_labels, of_teacher = CASES[name]
    outputs = tf.constant(outputs)
    both = WEIGHT * of_teacher + (1 - WEIGHT) * of_labels
    np.testing.assert_allclose(batch_loss(loss, tensors(batch), outputs), both.mean(), rtol=1e-5)
    mixed = tensors({**batch, "label_weights": HAS_LABEL})
    expected = np.where(HAS_LABEL > 0, both, of_teacher).mean()
    np.testing.assert_allclose(batch_loss(loss, mixed, outputs), expected, rtol=1e-5)
    means = loss.metrics(mixed, outputs)
    label_loss = (HAS_LABEL * of_labels).sum() / HAS_LABEL.sum()
    np.testing.assert_allclose(
        means["label_loss"].total / means["label_loss"].weight, label_loss, rtol=1e-5
    )
    alone = tensors({"teacher_targets": batch["teacher_targets"]})
    np.testing.assert_allclose(batch_loss(loss, alone, outputs), of_teacher.mean(), rtol=1e-5)


def test_parts_of_a_batch_add_up_to_its_loss():
    loss, batch, outputs, *_ = CASES["classification"]
    batch = {**batch, "label_weights": HAS_LABEL}
    weights = loss.weights(tensors(batch))
    parts = []
    for rows in (slice(0, 2), slice(2, 5)):
        part = tensors({name: values[rows] for name, values in batch.items()})
        parts.append(loss.total(loss.metrics(part, tf.constant(outputs[rows])), weights))
    whole = batch_loss(loss, tensors(batch), tf.constant(outputs))
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-6)


def test_words_of_texts_without_tags_learn_those_of_the_teacher():
    logits = rng.normal(size=(2, 4, 3)).astype(np.float32)
    labels = np.array([[-1, 2, 0, -1], [-1, -1, -1, -1]], np.int32)
    targets = np.array([[-1, 1, 0, -1], [-1, 2, -1, -1]], np.int32)
    batch = tensors({"label_ids": labels, "teacher_targets": targets})
    loss = TaughtTokenClassificationLoss(TokenClassificationLoss(), WEIGHT)
    log = -log_softmax(logits)
    words = [
        (1 - WEIGHT) * log[0, 1, 2] + WEIGHT * log[0, 1, 1],
        log[0, 2, 0],
        log[1, 1, 2],
    ]
    np.testing.assert_allclose(
        batch_loss(loss, batch, tf.constant(logits)), np.mean(words), rtol=1e-5
    )


@pytest.mark.parametrize("texts", [1, 2])
def test_embeddings_learn_vectors_and_cosines(texts):
    def unit(*shape):
        values = rng.normal(size=shape)
        return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)

    rows = 4 * texts
    own, projected, targets = (
        unit(rows, 6),
        rng.normal(size=(rows, 5)).astype(np.float32),
        unit(4, texts, 5),
    )
    theirs = targets.reshape(rows, 5)
    cosines = (projected * theirs).sum(axis=-1) / np.linalg.norm(projected, axis=-1)
    among = ((own @ own.T - theirs @ theirs.T) ** 2).mean()
    expected = (1 - cosines).mean() + 5 * among
    label_loss = ContrastiveLoss(0.05)
    loss = TaughtEmbeddingLoss(label_loss, WEIGHT)
    batch = tensors({"teacher_targets": targets, "input_ids": np.zeros((rows, 3), np.int32)})
    outputs = tensors({"embedding": own, "projected": projected})
    if texts > 1:
        of_labels = batch_loss(label_loss, batch, outputs["embedding"])
        expected = WEIGHT * expected + (1 - WEIGHT) * of_labels
    np.testing.assert_allclose(batch_loss(loss, batch, outputs), expected, rtol=1e-5)
