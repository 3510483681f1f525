"""The objectives of pre-training, and the loss that sums them."""

import abc
import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf

from albert_tf.losses.means import Batch, Mean, count_rows, loss_and_accuracy

# The original's guard against batches without predictions.
_MASKED_LM_EPSILON = 1e-5


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
        loss, accuracy = loss_and_accuracy(
            outputs["masked_lm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"]
        )
        return {"masked_lm_loss": loss, "masked_lm_accuracy": accuracy}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the predictions; 0 without any."""
        return means["masked_lm_loss"].total / (weights["predictions"] + _MASKED_LM_EPSILON)

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns `perplexity`, exp of the loss."""
        # TensorBoard's numbers are float32, in which exp overflows above 88.7.
        return {"perplexity": math.exp(min(metrics["masked_lm_loss"], 88.0))}


class SentenceOrder(Objective):
    """Cross-entropy of the two segments' order, or of whether B follows A.

    It reads `sentence_order_logits` (B, 2); the labels are `next_sentence_labels` int (B, 1).
    """

    NAME = "sentence_order"

    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns loss and accuracy over the sequences."""
        # Rows without a first token pad the batch.
        is_sequence = tf.cast(batch["input_mask"][:, 0], tf.float32)
        loss, accuracy = loss_and_accuracy(
            outputs["sentence_order_logits"], batch["next_sentence_labels"][:, 0], is_sequence
        )
        return {"sentence_order_loss": loss, "sentence_order_accuracy": accuracy}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the sequences."""
        return means["sentence_order_loss"].total / weights["sequences"]


class ReplacedTokens(Objective):
    """Cross-entropy, for each token, of whether it was replaced (Clark et al. 2020, section 2).

    It reads `replaced_token_logits` (B, S) and `is_replaced` bool (B, S) of `ElectraPretrainer`. Padding
    does not count.
    """

    NAME = "replaced_token"

    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns loss and accuracy over the tokens, and precision and recall of the replaced ones."""
        logits = outputs["replaced_token_logits"]
        is_token = tf.cast(batch["input_mask"], tf.float32)
        targets = tf.cast(outputs["is_replaced"], tf.float32)
        found = tf.cast(logits > 0, tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)

        def count(values: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(values * is_token)

        tokens, both = count(tf.ones_like(logits)), count(found * targets)
        return {
            "replaced_token_loss": Mean(count(losses), tokens),
            "replaced_token_accuracy": Mean(count(tf.cast(found == targets, tf.float32)), tokens),
            "replaced_token_precision": Mean(both, count(found)),
            "replaced_token_recall": Mean(both, count(targets)),
        }

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the mean over the tokens."""
        return means["replaced_token_loss"].total / weights["tokens"]


class PretrainingLoss:
    """The weighted sum of the losses of objectives; by default those of ALBERT, which count alike.

    Args:
        objectives: the objectives, with distinct names.
    """

    def __init__(self, objectives: Sequence[Objective] = (MaskedLM(), SentenceOrder())):
        self._objectives = tuple(objectives)

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the denominators of all objectives, and the numbers of sequences and tokens."""
        denominators: dict[str, tf.Tensor] = {}
        for objective in self._objectives:
            denominators |= objective.weights(batch)
        mask = batch["input_mask"]
        tokens = tf.reduce_sum(tf.cast(mask, tf.float32))
        return {**denominators, "sequences": count_rows(mask), "tokens": tokens}

    def total(self, means: Mapping[str, Mean], weights: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the weighted sum of all losses."""
        shares = [_weighted(o.weight, o.total(means, weights)) for o in self._objectives]
        return functools.reduce(operator.add, shares)

    def metrics(self, batch: Batch, outputs: Mapping[str, tf.Tensor]) -> dict[str, Mean]:
        """Returns the means of all objectives, given the outputs of the model."""
        means: dict[str, Mean] = {}
        for objective in self._objectives:
            means |= objective.metrics(batch, outputs)
        return means

    def derive(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Returns `loss`, the weighted sum of all losses, and the metrics that each objective derives."""
        derived: dict[str, float] = {}
        for objective in self._objectives:
            derived |= objective.derive(metrics)
        losses = [o.weight * metrics[f"{o.NAME}_loss"] for o in self._objectives]
        return {"loss": sum(losses), **derived}


def _weighted(weight: float, loss: tf.Tensor) -> tf.Tensor:
    """Returns their product; of a weight of 1 without an operator in each step."""
    return loss if weight == 1 else weight * loss
