"""The losses of a student: of a teacher's answers, and of the labels of those rows that have one.

All rows have an answer, `teacher_targets` of a batch; `label_weights` is 1 for a row with a label and
missing where all have one. The teacher's part of the loss of a row with a label counts `weight`, and that
of the label the rest. Of other rows it is the whole loss (Hinton et al. 2015,
https://arxiv.org/abs/1503.02531, section 2, at temperature 1).
"""

import abc
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.losses.fine_tuning import MeanLoss, RegressionLoss, is_labelled
from albert_tf.losses.means import Batch, Mean, label_weights

# Name of the answers in a batch.
TARGETS = "teacher_targets"

# Weight of the differences of cosines, beside the distances to the teacher's embeddings.
_COSINES = 5.0


class TaughtLoss(MeanLoss):
    """The loss of a student. A subclass says how far outputs are from the teacher's answers.

    Reports have the means of its parts, `label_loss` and `teacher_loss`.

    Args:
        label_loss: the loss of labels, which leaves out rows without one.
        weight: share of the teacher's part in the loss of a row with a label, in [0, 1].
    """

    label = TARGETS

    def __init__(self, label_loss: MeanLoss, weight: float):
        self._label_loss = label_loss
        self._weight = weight
        self.rows = label_loss.rows

    @abc.abstractmethod
    def distances(self, targets: tf.Tensor, outputs: Any) -> tf.Tensor:
        """Returns the teacher's part of each row, float32 (B,)."""

    def learns_labels(self, batch: Batch) -> bool:
        """Returns whether rows may have labels."""
        return self._label_loss.label in batch

    def has_label(self, batch: Batch) -> tf.Tensor:
        """Returns 1 for each row with a label, and 0 for others, float32 (B,)."""
        return label_weights(batch, batch[TARGETS])

    def metrics(self, batch: Batch, outputs: Any) -> dict[str, Mean]:
        """Returns the loss, its parts, and the other means of the labels."""
        return self.combined(batch, self.distances(batch[TARGETS], outputs), outputs)

    def combined(self, batch: Batch, distances: tf.Tensor, outputs: Any) -> dict[str, Mean]:
        """Returns the means of the distances (B,) and of the labels, given what their loss reads."""
        count = self.weights(batch)[self.rows]
        taught = Mean(tf.reduce_sum(distances), count)
        if not self.learns_labels(batch):
            return {"loss": taught, "teacher_loss": taught}
        label_share = (1 - self._weight) * self.has_label(batch)
        means = self._label_loss.metrics(batch, outputs)
        labelled = means.pop("loss")
        total = tf.reduce_sum((1 - label_share) * distances) + (1 - self._weight) * labelled.total
        return {
            "loss": Mean(total, count),
            **means,
            "label_loss": labelled,
            "teacher_loss": taught,
        }


class TaughtClassificationLoss(TaughtLoss):
    """Mean cross-entropy with the teacher's probabilities: targets float (B, k)."""

    def distances(self, targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the cross-entropy of each row, given logits, float (B, k)."""
        return tf.nn.softmax_cross_entropy_with_logits(targets, outputs)


class TaughtMultiLabelLoss(TaughtLoss):
    """Mean binary cross-entropy with the teacher's probabilities: targets float (B, k)."""

    def distances(self, targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the mean over the labels of each row, given logits, float (B, k)."""
        losses = tf.nn.sigmoid_cross_entropy_with_logits(targets, outputs)
        return tf.reduce_mean(losses, axis=-1)


class TaughtRegressionLoss(TaughtLoss):
    """Mean squared error of the teacher's scores: targets float (B, 1), scaled as labels are."""

    def __init__(self, label_loss: RegressionLoss, weight: float):
        super().__init__(label_loss, weight)
        self._scaled = label_loss.scaled

    def distances(self, targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the squared error of each row, given outputs, float (B, 1)."""
        return tf.square(outputs - self._scaled(targets))[:, 0]


class TaughtEmbeddingLoss(TaughtLoss):
    """Mean distance of embeddings to the teacher's, of length 1: targets float (B, C, width), of C texts.

    It is 1 less the cosine, and `_COSINES` times the mean squared difference of the cosines with all
    embeddings of the batch: those of the same replica and micro-batch. Single texts have no label loss.
    Outputs are embeddings (C B, H) of the same width, a row after the other, or a dictionary of these,
    `embedding`, and of `projected`, which have the width of the teacher's.
    """

    def __init__(self, label_loss: MeanLoss, weight: float):
        super().__init__(label_loss, weight)
        self.rows = MeanLoss.rows  # which may be single texts

    def learns_labels(self, batch: Batch) -> bool:
        """Returns whether rows are pairs, or triplets."""
        return batch[TARGETS].shape[1] > 1

    def metrics(self, batch: Batch, outputs: Any) -> dict[str, Mean]:
        """Returns the loss, its parts, and the other means of the labels."""
        both = (
            outputs if isinstance(outputs, dict) else {"embedding": outputs, "projected": outputs}
        )
        distances = self.distances(batch[TARGETS], both)
        return self.combined(batch, distances, both["embedding"])

    def distances(self, targets: tf.Tensor, outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the texts of each row, float32 (B,)."""
        _, texts, width = targets.shape
        theirs = tf.reshape(targets, (-1, width))  # (C B, width)
        own, projected = (
            tf.math.l2_normalize(tf.cast(outputs[name], tf.float32), axis=-1)
            for name in ("embedding", "projected")
        )
        cosines = tf.reduce_sum(projected * theirs, axis=-1)
        among_own, among_theirs = (tf.matmul(x, x, transpose_b=True) for x in (own, theirs))
        among = tf.reduce_mean(tf.square(among_own - among_theirs), axis=-1)
        of_texts = 1 - cosines + _COSINES * among  # (C B,)
        return tf.reduce_mean(tf.reshape(of_texts, (-1, texts)), axis=-1)


class TaughtTokenClassificationLoss(TaughtLoss):
    """Mean cross-entropy of the teacher's tags of words: targets int (B, S), -1 for other tokens."""

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the number of words, which the teacher has tagged."""
        return {self.rows: tf.reduce_sum(is_labelled(batch[TARGETS]))}

    def total(self, means, weights) -> tf.Tensor:
        """Returns the mean over the words; 0 without any."""
        return tf.math.divide_no_nan(means["loss"].total, weights[self.rows])

    def has_label(self, batch: Batch) -> tf.Tensor:
        """Returns 1 for each token with a label, and 0 for others, float32 (B, S)."""
        return is_labelled(batch["label_ids"])

    def distances(self, targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the cross-entropy of each word and 0 for other tokens, float (B, S)."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.maximum(targets, 0), logits=outputs
        )
        return losses * is_labelled(targets)
