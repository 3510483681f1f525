"""The losses of all tasks, and the metrics reported with them.

A batch may be spread over replicas and micro-batches, so a loss is computed in two steps: `weights`
returns a part's share of each denominator, and `total` divides by the denominators of the whole batch.
The losses and gradients of the parts then add up to those of the whole batch. What the methods return is
said at `albert_tf.training.evaluator.Loss`.
"""

import tensorflow as tf

from albert_tf.losses.fine_tuning import (
    ClassificationLoss,
    ConditionalSpanLoss,
    ContrastiveLoss,
    CosentLoss,
    MeanLoss,
    MultiLabelLoss,
    RegressionLoss,
    SpanLoss,
    TokenClassificationLoss,
)
from albert_tf.losses.means import Batch, Mean
from albert_tf.losses.pretraining import (
    MaskedLM,
    Objective,
    PretrainingLoss,
    ReplacedTokens,
    SentenceOrder,
)
from albert_tf.losses.taught import (
    TARGETS,
    TaughtClassificationLoss,
    TaughtEmbeddingLoss,
    TaughtLoss,
    TaughtMultiLabelLoss,
    TaughtRegressionLoss,
    TaughtTokenClassificationLoss,
)

__all__ = [
    "TARGETS",
    "ClassificationLoss",
    "ConditionalSpanLoss",
    "ContrastiveLoss",
    "CosentLoss",
    "MaskedLM",
    "Mean",
    "MeanLoss",
    "MultiLabelLoss",
    "Objective",
    "PretrainingLoss",
    "RegressionLoss",
    "ReplacedTokens",
    "SentenceOrder",
    "SpanLoss",
    "TaughtClassificationLoss",
    "TaughtEmbeddingLoss",
    "TaughtLoss",
    "TaughtMultiLabelLoss",
    "TaughtRegressionLoss",
    "TaughtTokenClassificationLoss",
    "TokenClassificationLoss",
    "batch_loss",
]


def batch_loss(loss: PretrainingLoss | MeanLoss, batch: Batch, outputs) -> tf.Tensor:
    """Returns the loss of a whole batch, a float32 scalar."""
    return loss.total(loss.metrics(batch, outputs), loss.weights(batch))
