"""Scores of texts or pairs of texts."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.examples import Example, ScoreRange
from albert_tf.data.fine_tuning.features import label_ids
from albert_tf.errors import InputError
from albert_tf.evaluation.metrics import compute_metrics
from albert_tf.kinds.kind import Kind, Quality
from albert_tf.kinds.registry import register
from albert_tf.kinds.taught import TaughtTextKind
from albert_tf.kinds.text_kind import change_head
from albert_tf.losses import RegressionLoss, TaughtRegressionLoss, batch_loss

# Mean and standard deviation from which on scores are scaled for the training. Those of STS-B are not.
_FAR = 8.0


class Scores(NamedTuple):
    """The predictions of a regression model for n examples.

    Attributes:
        score: float32 (n,).
    """

    score: np.ndarray


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Regression(TaughtTextKind):
    """Texts or pairs of texts, with a score. Predictions are float32 (n, 1)."""

    name: ClassVar = "regression"
    Result: ClassVar = Scores
    more_metrics: ClassVar = ("loss",)

    metrics: tuple[str, ...] = ("pearson", "spearman")
    # What the model learns is (score - offset) / scale, where scores are too large or too small for it.
    offset: float = 0.0
    scale: float = 1.0

    @property
    def accepted_labels(self) -> ScoreRange:
        return ScoreRange()

    @property
    def loss(self) -> RegressionLoss:
        return RegressionLoss(self.offset, self.scale)

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        """Returns the kind with mean and deviation of the scores, if these are far from 0 and 1."""
        fitted = super().fit_labels(examples, path)
        return fitted._fit_scores(label_ids(examples, self.accepted_labels), path)

    def _fit_scores(self, scores: np.ndarray, path: str) -> Self:
        offset, scale = float(scores.mean(dtype=np.float64)), float(scores.std(dtype=np.float64))
        if not scale:
            raise InputError(f"{path}: every row has the score {offset:g}; expected two or more")
        if 1 / _FAR <= scale <= _FAR and abs(offset) <= _FAR:
            return self
        return dataclasses.replace(self, offset=offset, scale=scale)

    def targets(self, teacher: Kind, examples, predictions: np.ndarray) -> np.ndarray:
        """Returns the scores."""
        return teacher.result(examples, predictions).score[:, None]

    def fit_targets(self, targets: np.ndarray) -> Self:
        return self._fit_scores(targets, "the teacher's answers")

    def predictions_of(self, targets: np.ndarray) -> np.ndarray:
        return self.loss.scaled(targets)

    def taught_loss(self, weight: float) -> TaughtRegressionLoss:
        return TaughtRegressionLoss(self.loss, weight)

    def stored(self, tensors: dict[str, np.ndarray]) -> tuple[Self, dict[str, np.ndarray]]:
        """Returns the kind and the tensors of the model whose outputs are the scores themselves."""
        kind = dataclasses.replace(self, offset=0.0, scale=1.0)
        return kind, change_head(
            tensors,
            weight=lambda x: x * self.scale,
            bias=lambda x: x * self.scale + self.offset,
        )

    def measure(self, examples: Sequence[Example], predictions: np.ndarray) -> Quality:
        """Also measures the root of the mean squared error, and that error as the loss."""
        scores = label_ids(examples, self.accepted_labels)
        predicted = self.result(examples, predictions).score
        loss = float(batch_loss(RegressionLoss(), {"label_ids": scores}, predicted[:, None]))
        metrics = compute_metrics(self.metrics, scores, predicted)
        return Quality({**metrics, "rmse": loss**0.5, "loss": loss})

    def answers(self, examples, predictions: np.ndarray) -> dict[str, list[float]]:
        return {"prediction": self.result(examples, predictions).score.tolist()}

    def interpretation(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Maps logits (B, 1) to `score` (B,)."""
        return {"score": logits[:, 0] * self.scale + self.offset}
