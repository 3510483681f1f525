"""Regression: texts, or pairs of texts, with a score."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning import tsv
from albert_tf.data.fine_tuning.features import label_ids
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.evaluation.metrics import compute_metrics
from albert_tf.kinds.classification import TextKind
from albert_tf.kinds.registry import register
from albert_tf.losses import RegressionLoss, batch_loss


class Scores(NamedTuple):
    """The predictions of a regression model for n examples.

    Attributes:
        score: float32 (n,).
    """

    score: np.ndarray


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Regression(TextKind):
    """Texts or pairs of texts, with a score. Predictions are float32 (n, 1)."""

    name: ClassVar = "regression"
    loss: ClassVar = RegressionLoss()

    metrics: tuple[str, ...] = ("pearson", "spearman")

    @property
    def accepted_labels(self) -> tsv.Scores:
        return tsv.Scores()

    def measure(self, examples: Sequence[Example], predictions: np.ndarray) -> dict[str, float]:
        scores = label_ids(examples, self.accepted_labels)
        loss = batch_loss(self.loss, {"label_ids": scores}, predictions)
        return {**compute_metrics(self.metrics, scores, predictions[:, 0]), "loss": float(loss)}

    def result(self, examples: Sequence[Example], predictions: np.ndarray) -> Scores:
        return Scores(predictions[:, 0])

    def rows(self, examples, predictions) -> Iterator[dict[str, str | float]]:
        for example, (score,) in zip(examples, predictions, strict=True):
            yield {**example.known(), "prediction": float(score)}

    def outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Maps logits (B, 1) to `score` (B,)."""
        return {"score": outputs[:, 0]}

    def read_outputs(self, exported: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits (B, 1) of an exported model."""
        return exported["score"][:, None]
