"""The losses of all tasks, and the metrics reported with them.

A batch may be spread over replicas and micro-batches, so a loss is computed in two steps: `weights`
returns a part's share of each denominator, and `total` divides by the denominators of the whole batch.
The losses and gradients of the parts then add up to those of the whole batch. What the methods return is
said at `albert_tf.training.evaluator.Loss`.
"""

import abc
import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import tensorflow as tf

Batch = Mapping[str, tf.Tensor]

# The original's guard against batches without predictions.
_MASKED_LM_EPSILON = 1e-5


class Mean(NamedTuple):
    """A mean `total / weight`, kept as a pair so that the means of parts can be added."""

    total: tf.Tensor
    weight: tf.Tensor


class Objective(abc.ABC):
    """One objective of pre-training: a loss of its own, with a weight in the sum of `PretrainingLoss`.

    Its metrics have a mean `<NAME>_loss`. A subclass says which features of the batch are its labels, and
    which outputs of the model it reads.

    Args:
        weight: factor of its loss in the sum.
    """

    NAME: ClassVar[str]

    def __init__(self, weight: float = 1.0):
        self.weight = weight

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the denominators of its loss, other than the numbers of sequences and tokens."""
        del batch
        return {}

    @abc.abstractmethod
    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns its means over this micro-batch."""

    @abc.abstractmethod
    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns this micro-batch's share of its loss, without the factor."""

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns further metrics, which follow from the means."""
        del metrics
        return {}


class MaskedLM(Objective):
    """Cross-entropy of the masked pieces, given `masked_lm_logits` (B, M, V).

    The labels are `masked_lm_ids` int (B, M) and their mask `masked_lm_weights` float (B, M): a slot of
    weight 0 is no prediction, whatever its position and its id.
    """

    NAME = "masked_lm"

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the number of predictions."""
        return {"predictions": tf.reduce_sum(batch["masked_lm_weights"])}

    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns loss and accuracy over the predictions."""
        loss, accuracy = _loss_and_accuracy(
            outputs["masked_lm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"]
        )
        return {"masked_lm_loss": loss, "masked_lm_accuracy": accuracy}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the predictions; 0 without any."""
        return means["masked_lm_loss"].total / (weights["predictions"] + _MASKED_LM_EPSILON)

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns `perplexity`, exp of the loss."""
        # exp overflows above 709.
        return {"perplexity": math.exp(min(metrics["masked_lm_loss"], 700.0))}


class SentenceOrder(Objective):
    """Cross-entropy of the two segments' order, or of whether B follows A.

    It reads `sentence_order_logits` (B, 2); the labels are `next_sentence_labels` int (B, 1).
    """

    NAME = "sentence_order"

    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns loss and accuracy over the sequences."""
        # Rows without a first token pad the batch.
        is_sequence = tf.cast(batch["input_mask"][:, 0], tf.float32)
        loss, accuracy = _loss_and_accuracy(
            outputs["sentence_order_logits"], batch["next_sentence_labels"][:, 0], is_sequence
        )
        return {"sentence_order_loss": loss, "sentence_order_accuracy": accuracy}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the sequences."""
        return means["sentence_order_loss"].total / weights["sequences"]


class PretrainingLoss:
    """The weighted sum of the losses of objectives; by default those of ALBERT, which count alike.

    Args:
        objectives: the objectives, with distinct names.
    """

    def __init__(self, objectives: Sequence[Objective] = (MaskedLM(), SentenceOrder())):
        self._objectives = tuple(objectives)

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the denominators of all objectives, and the numbers of sequences and tokens."""
        denominators = {}
        for objective in self._objectives:
            denominators |= objective.weights(batch)
        mask = batch["input_mask"]
        tokens = tf.reduce_sum(tf.cast(mask, tf.float32))
        return {**denominators, "sequences": _rows(mask), "tokens": tokens}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the weighted sum of all losses."""
        shares = [_weighted(o.weight, o.total(means, weights)) for o in self._objectives]
        return functools.reduce(operator.add, shares)

    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns the means of all objectives, given the outputs of `AlbertPretrainer`."""
        means = {}
        for objective in self._objectives:
            means |= objective.metrics(batch, outputs)
        return means

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns `loss`, the weighted sum of all losses, and the metrics that each objective derives."""
        derived = {}
        for objective in self._objectives:
            derived |= objective.derive(metrics)
        losses = [o.weight * metrics[f"{o.NAME}_loss"] for o in self._objectives]
        return {"loss": sum(losses), **derived}


class _MeanLoss:
    """A loss that is a mean over the `rows` of a batch, as reports call them; each has a `label`."""

    rows = "examples"
    label = "label_ids"

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the number of rows."""
        return {self.rows: _rows(batch[self.label])}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the rows."""
        return means["loss"].total / weights[self.rows]

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns no further metrics."""
        del metrics
        return {}


class ClassificationLoss(_MeanLoss):
    """Mean cross-entropy of one label per example: `label_ids` int (B,).

    Args:
        class_weights: what each class counts in the loss; empty for 1 each.
    """

    def __init__(self, class_weights: Sequence[float] = ()):
        self._class_weights = tuple(class_weights)

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns loss and accuracy, given logits, float (B, classes)."""
        labels = batch["label_ids"]
        loss, accuracy = _loss_and_accuracy(outputs, labels, tf.ones_like(labels, tf.float32))
        if self._class_weights:
            weights = tf.gather(tf.constant(self._class_weights), labels)
            loss, _ = _loss_and_accuracy(outputs, labels, weights)
        return {"loss": loss, "accuracy": accuracy}


class RegressionLoss(_MeanLoss):
    """Mean squared error of one score per example: `label_ids` float (B,).

    The model's outputs are those of scores less `offset`, in units of `scale`.
    """

    def __init__(self, offset: float = 0.0, scale: float = 1.0):
        self._offset = offset
        self._scale = scale

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns the loss, given outputs, float (B, 1)."""
        errors = tf.square(outputs[:, 0] - (batch["label_ids"] - self._offset) / self._scale)
        return {"loss": Mean(tf.reduce_sum(errors), _rows(errors))}


class MultiLabelLoss(_MeanLoss):
    """Mean binary cross-entropy of k labels: `label_ids` float (B, k) of 0 and 1."""

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns the loss, given logits, float (B, k)."""
        losses = tf.nn.sigmoid_cross_entropy_with_logits(batch["label_ids"], outputs)
        of_rows = tf.reduce_mean(losses, axis=-1)
        return {"loss": Mean(tf.reduce_sum(of_rows), _rows(of_rows))}


class ContrastiveLoss(_MeanLoss):
    """Mean cross-entropy of finding the second text of each pair among those of the batch.

    The logits are cosines divided by a temperature (Gao et al. 2021, https://arxiv.org/abs/2104.08821,
    equation 1). The second texts of the other pairs are negatives: those of the same replica and
    micro-batch.

    Args:
        temperature: divisor of the cosines, above 0.
    """

    rows = "pairs"

    def __init__(self, temperature: float):
        self._temperature = temperature

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the number of pairs."""
        return {self.rows: _rows(batch["input_ids"]) / 2}

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns loss and accuracy, given embeddings of length 1, (2 B, H), a pair after the other."""
        logits = tf.matmul(outputs[::2], outputs[1::2], transpose_b=True) / self._temperature
        pairs = tf.range(tf.shape(logits)[0])  # logits (B, B)
        loss, accuracy = _loss_and_accuracy(logits, pairs, tf.ones_like(pairs, tf.float32))
        return {"loss": loss, "accuracy": accuracy}


class TokenClassificationLoss(_MeanLoss):
    """Mean cross-entropy of the labelled tokens: `label_ids` int (B, S), -1 for other tokens."""

    rows = "words"

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the number of labelled tokens."""
        return {self.rows: tf.reduce_sum(_is_labelled(batch))}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the labelled tokens; 0 without any."""
        return tf.math.divide_no_nan(means["loss"].total, weights[self.rows])

    def metrics(self, batch: Batch, outputs: tf.Tensor) -> dict[str, Mean]:
        """Returns loss and accuracy, given logits, float (B, S, classes)."""
        labels = tf.maximum(batch["label_ids"], 0)
        loss, accuracy = _loss_and_accuracy(outputs, labels, _is_labelled(batch))
        return {"loss": loss, "accuracy": accuracy}


class SpanLoss(_MeanLoss):
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
        return {"loss": Mean(0.5 * tf.reduce_sum(losses), _rows(batch["start_positions"]))}


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
        return {"loss": Mean(total, _rows(answerability))}


def batch_loss(loss: PretrainingLoss | _MeanLoss, batch: Batch, outputs) -> tf.Tensor:
    """Returns the loss of a whole batch, a float32 scalar."""
    return loss.total(loss.metrics(batch, outputs), loss.weights(batch))


def _weighted(weight: float, loss: tf.Tensor) -> tf.Tensor:
    """Returns their product; of a weight of 1 without an operator in each step."""
    return loss if weight == 1 else weight * loss


def _rows(tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.shape(tensor)[0], tf.float32)


def _is_labelled(batch: Batch) -> tf.Tensor:
    return tf.cast(batch["label_ids"] >= 0, tf.float32)


def _loss_and_accuracy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> tuple[Mean, Mean]:
    """Weighted cross-entropy and accuracy of logits (..., classes), with labels and weights (...)."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    correct = tf.cast(tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels, tf.float32)
    weight = tf.reduce_sum(weights)
    return (
        Mean(tf.reduce_sum(losses * weights), weight),
        Mean(tf.reduce_sum(correct * weights), weight),
    )
