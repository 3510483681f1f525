"""The losses of fine-tuning, each a mean over the rows of a batch."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.losses.means import Batch, Mean, count_rows, label_weights, loss_and_accuracy


class MeanLoss(abc.ABC):
    """A loss that is a mean over the `rows` of a batch, as reports call them; each has a `label`."""

    rows = "examples"
    label = "label_ids"

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the number of rows."""
        return {self.rows: count_rows(batch[self.label])}

    @abc.abstractmethod
    def metrics(self, batch: Batch, outputs: Any) -> dict[str, Mean]:
        """Returns the means over this micro-batch; `loss` is one of them."""

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the rows."""
        return means["loss"].total / weights[self.rows]

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns no further metrics."""
        del metrics
        return {}


class ClassificationLoss(MeanLoss):
    """Mean cross-entropy of one label per example: `label_ids` int (B,).

    Args:
        class_weights: what each class counts in the loss; empty for 1 each. The whole loss of an example,
            also what smoothing adds, has the weight of its label.
        label_smoothing: share of the target that is spread evenly over all classes, in [0, 1), see
            `loss_and_accuracy`.
    """

    def __init__(self, class_weights: Sequence[float] = (), label_smoothing: float = 0.0):
        self._class_weights = tuple(class_weights)
        self._label_smoothing = label_smoothing

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns loss and accuracy, given logits, float (B, classes)."""
        labels, smoothing = batch["label_ids"], self._label_smoothing
        rows = label_weights(batch, labels)
        loss, accuracy = loss_and_accuracy(
            logits=outputs, labels=labels, weights=rows, label_smoothing=smoothing
        )
        if self._class_weights:
            weights = rows * tf.gather(tf.constant(self._class_weights), labels)
            loss, _ = loss_and_accuracy(
                logits=outputs, labels=labels, weights=weights, label_smoothing=smoothing
            )
        return {"loss": loss, "accuracy": accuracy}


class RegressionLoss(MeanLoss):
    """Mean squared error of one score per example: `label_ids` float (B,).

    The model's outputs are those of scores less `offset`, in units of `scale`.
    """

    def __init__(self, offset: float = 0.0, scale: float = 1.0):
        self._offset = offset
        self._scale = scale

    def scaled(self, scores: Any) -> Any:
        """Maps scores, float (...), to the outputs of a model that predicts them."""
        return (scores - self._offset) / self._scale

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns the loss, given outputs, float (B, 1)."""
        errors = tf.square(outputs[:, 0] - self.scaled(batch["label_ids"]))
        return {"loss": _mean_of_labelled(batch, errors)}


class MultiLabelLoss(MeanLoss):
    """Mean binary cross-entropy of k labels: `label_ids` float (B, k) of 0 and 1."""

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns the loss, given logits, float (B, k)."""
        losses = tf.nn.sigmoid_cross_entropy_with_logits(batch["label_ids"], outputs)
        return {"loss": _mean_of_labelled(batch, tf.reduce_mean(losses, axis=-1))}


class ContrastiveLoss(MeanLoss):
    """Mean cross-entropy of finding the second text of each pair among those of the batch.

    The logits are cosines divided by a temperature (Gao et al. 2021, https://arxiv.org/abs/2104.08821,
    equation 1). The second texts of the other pairs are negatives, and so are the third texts of all
    triplets (equation 5): those of the same replica and micro-batch.

    Args:
        temperature: divisor of the cosines, above 0.
        num_texts: T, the number of texts of a row: 2 of pairs, 3 of triplets.
    """

    rows = "pairs"

    def __init__(self, temperature: float, num_texts: int = 2):
        self._temperature = temperature
        self._num_texts = num_texts

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the number of pairs."""
        return {self.rows: count_rows(batch["input_ids"]) / self._num_texts}

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns loss and accuracy, given embeddings of length 1, (T B, H), a row after the other."""
        first, *others = (outputs[number :: self._num_texts] for number in range(self._num_texts))
        candidates = tf.concat(others, axis=0)  # ((T - 1) B, H)
        logits = tf.matmul(first, candidates, transpose_b=True) / self._temperature
        pairs = tf.range(tf.shape(logits)[0])  # logits (B, (T - 1) B)
        loss, accuracy = loss_and_accuracy(logits, pairs, tf.ones_like(pairs, tf.float32))
        return {"loss": loss, "accuracy": accuracy}


class CosentLoss(MeanLoss):
    """Loss of pairs whose cosines should have the order of their scores: `label_ids` float (B,).

    It is log(1 + sum exp((cosine of j - cosine of i) / temperature)), over all i and j where i has the
    higher score (CoSENT, Huang et al. 2024, https://doi.org/10.1109/TASLP.2024.3402087). The pairs that
    are compared are those of the same replica and micro-batch.

    Args:
        temperature: divisor of the cosines, above 0.
    """

    rows = "pairs"

    def __init__(self, temperature: float):
        self._temperature = temperature

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns the loss, given embeddings of length 1, (2 B, H), a pair after the other.

        It counts once for each pair with a score, so that the losses of parts of a batch have a mean.
        """
        scores = batch["label_ids"]
        weights = label_weights(batch, scores)
        cosines = tf.reduce_sum(outputs[::2] * outputs[1::2], axis=-1) / self._temperature
        excesses = cosines[None, :] - cosines[:, None]  # (i, j), both (B,)
        are_scored = weights[:, None] * weights[None, :] > 0
        is_higher = are_scored & (scores[:, None] > scores[None, :])
        terms = tf.where(is_higher, excesses, excesses.dtype.min)
        logarithm_of_one = tf.zeros_like(cosines[:1])
        loss = tf.reduce_logsumexp(tf.concat([logarithm_of_one, tf.reshape(terms, [-1])], axis=0))
        pairs = tf.reduce_sum(weights)
        return {"loss": Mean(loss * pairs, pairs)}


class TokenClassificationLoss(MeanLoss):
    """Mean cross-entropy of the labelled tokens: `label_ids` int (B, S), -1 for other tokens."""

    rows = "words"

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the number of labelled tokens."""
        return {self.rows: tf.reduce_sum(is_labelled(batch["label_ids"]))}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the labelled tokens; 0 without any."""
        return tf.math.divide_no_nan(means["loss"].total, weights[self.rows])

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns loss and accuracy, given logits, float (B, S, classes)."""
        labels = tf.maximum(batch["label_ids"], 0)
        loss, accuracy = loss_and_accuracy(outputs, labels, is_labelled(batch["label_ids"]))
        return {"loss": loss, "accuracy": accuracy}


class SpanLoss(MeanLoss):
    """Mean cross-entropy of an answer's start and end, as in the original's `run_squad_v1.py`.

    The labels are `start_positions` and `end_positions`, int (B,).
    """

    rows = "windows"
    label = "start_positions"

    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns the loss, given `start_logits` and `end_logits`, float (B, S)."""
        losses = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=batch[f"{end}_positions"], logits=outputs[f"{end}_logits"]
            )
            for end in ("start", "end")
        ]
        return {"loss": Mean(0.5 * tf.reduce_sum(losses), count_rows(batch["start_positions"]))}


class ConditionalSpanLoss(SpanLoss):
    """`SpanLoss` plus half the cross-entropy of `is_impossible`, int (B,), as in `run_squad_v2.py`."""

    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns the loss, given `start_log_probs` and `end_log_probs` (B, S), and `cls_logits` (B,)."""
        log_probs = [
            tf.gather(outputs[f"{end}_log_probs"], batch[f"{end}_positions"], batch_dims=1)
            for end in ("start", "end")
        ]
        answerability = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(batch["is_impossible"], tf.float32), logits=outputs["cls_logits"]
        )
        total = 0.5 * (tf.reduce_sum(answerability) - tf.reduce_sum(log_probs))
        return {"loss": Mean(total, count_rows(answerability))}


def is_labelled(ids: tf.Tensor) -> tf.Tensor:
    """Returns 1 for each token with a label, int (B, S), and 0 for those with -1, float32 (B, S)."""
    return tf.cast(ids >= 0, tf.float32)


def _mean_of_labelled(batch: Batch, losses: tf.Tensor) -> Mean:
    """Returns the mean of the losses (B,) of rows with a label."""
    weights = label_weights(batch, losses)
    return Mean(tf.reduce_sum(weights * losses), tf.reduce_sum(weights))
