"""Classes of texts or pairs of texts."""

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.fine_tuning.cells import decode
from albert_tf.data.fine_tuning.examples import (
    Example,
    collect_names,
    label_name,
    quote_names,
)
from albert_tf.data.fine_tuning.features import label_ids
from albert_tf.errors import InputError
from albert_tf.evaluation.calibration import (
    calibration_error,
    fit_temperature,
    log_probabilities,
    with_temperature,
)
from albert_tf.evaluation.metrics import (
    choose_threshold,
    compute_metrics,
    confusion_matrix,
    is_collapsed,
    roc_auc,
)
from albert_tf.kinds.kind import Kind, Quality, of_weights
from albert_tf.kinds.registry import register
from albert_tf.kinds.taught import TaughtTextKind
from albert_tf.kinds.text_kind import change_head
from albert_tf.losses import (
    ClassificationLoss,
    TaughtClassificationLoss,
    batch_loss,
)
from albert_tf.options.kinds import ClassificationFlags

# Fewer dev rows fit no temperature. In simulations 100 find it to about a fifth, which costs as much loss
# as being a fourth too sure does; 50 cost twice that.
_LEAST_ROWS = 100
# Temperatures that differ by less, as by rounding, are the same.
_SAME_TEMPERATURE = 1e-4


class Classes(NamedTuple):
    """The predictions of a classifier or a multiple-choice model for n examples.

    Attributes:
        label: n names of classes, or letters of choices.
        probabilities: float32 (n, k), in the order of the model's `labels`.
    """

    label: list[str]
    probabilities: np.ndarray


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Classification(ClassificationFlags, TaughtTextKind):
    """Texts or pairs of texts, with one of several labels. Predictions are logits, float32 (n, k)."""

    name: ClassVar = "classification"
    Result: ClassVar = Classes
    more_metrics: ClassVar[tuple[str, ...]] = ("roc_auc", "loss")
    label_options: ClassVar = ("class_weights", "label_smoothing")

    metrics: tuple[str, ...] = ("accuracy",)
    # What each label counts in the loss, 1 on average; empty for 1 each.
    weights: tuple[float, ...] = ()
    # Divisor of the logits for probabilities that are true on the dev set, and the one that the stored
    # head has been divided by already.
    temperature: float = of_weights(1.0)
    head_temperature: float = of_weights(1.0)
    # Probability from which on the second of two labels is predicted, and the metric by which it is the
    # best one on the dev set; None without one.
    threshold: float | None = of_weights(None)
    threshold_by: str = of_weights("")

    def __post_init__(self):
        super().__post_init__()
        if self.threshold_metric != "none" and len(self.labels) not in (0, 2):
            raise InputError(
                f"threshold_metric={self.threshold_metric}: expected two labels; received "
                f"{len(self.labels)}"
            )

    @property
    def loss(self) -> ClassificationLoss:
        return ClassificationLoss(self.weights, self.label_smoothing)

    def taught_loss(self, weight: float) -> TaughtClassificationLoss:
        return TaughtClassificationLoss(self.loss, weight)

    def predictions_of(self, targets: np.ndarray) -> np.ndarray:
        return log_probabilities(targets)

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        """Returns the kind with the labels of the training set, sorted, unless it has labels."""
        labels = self.labels or collect_names([row.known_label for row in examples], path)
        if len(labels) < 2:
            raise InputError(
                f"{path}: every row has the label '{labels[0]}'; expected two labels or more"
            )
        fitted = dataclasses.replace(super().fit_labels(examples, path), labels=labels)
        return dataclasses.replace(fitted, weights=fitted._weigh(examples))

    def _weigh(self, examples: Sequence[Example]) -> tuple[float, ...]:
        if self.class_weights == "none":
            return ()
        counts = np.bincount(label_ids(examples, self.labels), minlength=len(self.labels))
        if self.class_weights == "balanced":
            weights = 1 / np.maximum(counts, 1)
        else:
            given = _parse_weights(self.class_weights, self.labels)
            weights = np.array([given.get(label, 1.0) for label in self.labels])
        return tuple((weights * len(examples) / (weights * counts).sum()).tolist())

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of the metrics, F1 (of the second of two labels) and Matthews' correlation always."""
        f1 = ("f1", "macro_f1") if len(self.labels) == 2 else ("macro_f1",)
        return tuple(dict.fromkeys((*self.metrics, *f1, "matthews_corrcoef")))

    def measure(self, examples: Sequence[Example], predictions: np.ndarray) -> Quality:
        """Also measures the loss, without weights and smoothing of labels, and the calibration error.

        With a temperature there is also the error of the probabilities before it.
        """
        ids = label_ids(examples, self.labels)
        found = self.interpretation(tf.constant(predictions))
        probabilities = found["probabilities"].numpy()
        numbers = {label: number for number, label in enumerate(self.labels)}
        predicted = np.array([numbers[label] for label in decode(found["label"].numpy())])
        loss = float(batch_loss(ClassificationLoss(), {"label_ids": ids}, found["logits"]))
        errors = {"calibration_error": calibration_error(ids, probabilities)}
        if self._whole_temperature != 1:
            before = with_temperature(probabilities, 1 / self._whole_temperature)
            errors["calibration_error_before"] = calibration_error(ids, before)
        metrics = {**compute_metrics(self.reported, ids, predicted), "loss": loss, **errors}
        if "roc_auc" in self.metrics:
            first = 1 if len(self.labels) == 2 else 0  # of two classes the second says all
            is_label = ids[:, None] == np.arange(len(self.labels))
            metrics["roc_auc"] = roc_auc(is_label[:, first:], probabilities[:, first:])
        if self._limit is not None:
            metrics["threshold"] = self._limit
        tables = {"confusion_matrix.tsv": lambda: confusion_matrix(self.labels, ids, predicted)}
        return Quality(metrics, is_collapsed(probabilities, ids, loss), tables)

    @property
    def _whole_temperature(self) -> float:
        return self.temperature * self.head_temperature

    @property
    def _limit(self) -> float | None:
        """The threshold that is applied; None for the most probable label."""
        is_chosen = self.threshold_by == self.threshold_metric != "none"
        return self.threshold if is_chosen else None

    @property
    def missing(self) -> str | None:
        """The name of the threshold if no dev set has decided it."""
        needed = self.threshold_metric != "none" and self._limit is None
        return "threshold" if needed else None

    def fit(self, examples: Sequence[Example], predictions: np.ndarray) -> Self:
        """Returns the kind with the threshold of the best `threshold_metric`, if it has one."""
        if self.threshold_metric == "none":
            return self
        threshold = choose_threshold(
            label_ids(examples, self.labels),
            self.probabilities(predictions)[:, 1],
            metric=self.threshold_metric,
            known=self._limit,
        )
        return dataclasses.replace(self, threshold=threshold, threshold_by=self.threshold_metric)

    def calibrate(self, examples: Sequence[Example], predictions: np.ndarray) -> tuple[Self, str]:
        """Returns the kind with the temperature of the lowest cross-entropy (Guo et al. 2017)."""
        ids, count = label_ids(examples, self.labels), len(examples)
        stays = f"temperature of the probabilities stays {self._whole_temperature:.3g}: "
        if count < _LEAST_ROWS:
            return self, f"{stays}{count} dev rows are too few to fit it; expected {_LEAST_ROWS}"
        if len(np.unique(ids)) < 2:
            return self, f"{stays}all dev rows have the same label"
        # Of the probabilities, since a subclass may make others of the logits.
        factor = fit_temperature(ids, log_probabilities(self.probabilities(predictions)))
        if factor is None:
            return self, f"{stays}no other is the best on the dev set, where all may be right"
        kind = self
        if abs(factor - 1) > _SAME_TEMPERATURE:
            kind = dataclasses.replace(self, temperature=self.temperature * factor)
            if self.threshold is not None:
                # Of the same logits, so that the labels stay.
                both = np.array([1 - self.threshold, self.threshold])
                threshold = float(with_temperature(both, factor)[1])
                kind = dataclasses.replace(kind, threshold=threshold)
        fitted = f"{kind._whole_temperature:.3g}, fitted to {count} dev rows"
        return kind, f"temperature of the probabilities: {fitted}"

    def stored(self, tensors: dict[str, np.ndarray]) -> tuple[Self, dict[str, np.ndarray]]:
        """Returns the kind and the tensors of the model whose logits are divided by the temperature.

        The head stays as it is if a subclass makes logits of its outputs, or others of the logits. Of
        multiple choice, a subclass too, it has one row for all choices.
        """
        methods = type(self).logits, type(self).interpretation
        if self.temperature == 1 or methods != (Kind.logits, Classification.interpretation):
            return self, tensors
        kind = dataclasses.replace(self, temperature=1.0, head_temperature=self._whole_temperature)
        return kind, change_head(
            tensors,
            weight=lambda x: x / self.temperature,
            bias=lambda x: x / self.temperature,
        )

    def interpretation(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Maps logits (B, k) to `logits`, `probabilities` (B, k) and `label` (B,)."""
        return interpret_classes(self.labels, logits / self.temperature, self._limit)


def _parse_weights(text: str, labels: Sequence[str]) -> dict[str, float]:
    flag = f"--class_weights={text}"
    if text.startswith("{"):
        given = list(files.parse_json(text, flag).items())
    else:
        given = [part.rpartition(":")[::2] for part in text.split(",")]
    weights = {}
    for name, weight in given:
        label = label_name(name, labels)
        try:
            weights[label] = float(weight)
        except (TypeError, ValueError):
            weights[label] = math.nan
        if not 0 < weights[label] < math.inf:
            received = f"{label}:{weight}".lstrip(":")
            raise InputError(
                f"{flag}: received '{received}'; expected none, balanced, label:weight,... or a JSON "
                "object, with weights above 0"
            )
        if label not in labels:
            raise InputError(f"{flag}: unknown label '{label}'; expected {quote_names(labels)}")
    return weights


def interpret_classes(
    labels: Sequence[str], logits: tf.Tensor, threshold: float | None = None
) -> dict[str, tf.Tensor]:
    """Maps logits (..., k) to `logits`, `probabilities` (..., k) and `label` (...).

    The label is that of the greatest probability, as in metrics and in spans of tags; with a threshold it
    is the second of two from that probability on.
    """
    probabilities = tf.nn.softmax(logits)
    if threshold is None:
        numbers = tf.argmax(probabilities, axis=-1)
    else:
        numbers = tf.cast(probabilities[..., 1] >= threshold, tf.int64)
    return {
        "logits": logits,
        "probabilities": probabilities,
        "label": tf.gather(tf.constant(labels), numbers),
    }
