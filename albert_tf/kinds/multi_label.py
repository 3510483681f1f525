"""Multi-label classification: texts, or pairs of texts, with any number of labels."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.cells import LABEL_SEPARATOR, decode
from albert_tf.data.fine_tuning.examples import Example, MultiLabels, collect_names
from albert_tf.data.fine_tuning.features import label_ids
from albert_tf.data.fine_tuning.label_sets import join_labels
from albert_tf.data.fine_tuning.opened_tables import open_table
from albert_tf.errors import InputError
from albert_tf.evaluation.calibration import log_odds
from albert_tf.evaluation.metrics import (
    DEFAULT_THRESHOLD,
    choose_thresholds,
    label_scores,
    roc_auc,
    score_labels,
)
from albert_tf.kinds.kind import Quality
from albert_tf.kinds.registry import register
from albert_tf.kinds.taught import TaughtTextKind
from albert_tf.kinds.text_kind import hide_blank
from albert_tf.losses import MultiLabelLoss, TaughtMultiLabelLoss, batch_loss


class LabelSets(NamedTuple):
    """The predictions of a multi-label classifier for n examples.

    Attributes:
        labels: n tuples of the names of labels.
        probabilities: float32 (n, k), in the order of the model's `labels`.
    """

    labels: list[tuple[str, ...]]
    probabilities: np.ndarray


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiLabel(TaughtTextKind):
    """Texts or pairs of texts, with any number of labels. Predictions are logits, float32 (n, k)."""

    name: ClassVar = "multi_label"
    loss: ClassVar = MultiLabelLoss()
    more_metrics: ClassVar = ("roc_auc", "loss")

    # Average precision chooses the checkpoint: unlike F1 it needs no thresholds.
    metrics: tuple[str, ...] = ("mean_average_precision", "micro_f1", "macro_f1")
    # The probability from which on an example has each label, the one that suits the dev set best;
    # empty for 0.5.
    thresholds: tuple[float, ...] = ()

    @property
    def accepted_labels(self) -> MultiLabels:
        """The labels that an example may have any number of."""
        return MultiLabels(self.labels or None)

    def read(self, source: Any, split: str) -> list[Example]:
        """Reads rows whose labels are a list, or text with `|` or `--label_separator` between two labels.

        They may also be vectors of 0 and 1, or columns of them: `label_<name>`, or `--label_columns`.
        Only then, and in lists, a row may have none.
        """
        table = join_labels(open_table(source, split), self.labels, optional=split == "test")
        return self._read(table, split, self.accepted_labels)

    def fit_labels(self, examples: Sequence[Example], path: str) -> Self:
        """Returns the kind with the labels of the training set, sorted, unless it has labels."""
        fitted = super().fit_labels(examples, path)
        if self.labels:
            return fitted
        sets = [example.known_label.split(LABEL_SEPARATOR) for example in examples]
        names = [name for labels in sets for name in labels if name]
        if not names:
            raise InputError(f"{path}: no row has a label; expected one label or more")
        return dataclasses.replace(fitted, labels=collect_names(names, path))

    def taught_loss(self, weight: float) -> TaughtMultiLabelLoss:
        return TaughtMultiLabelLoss(self.loss, weight)

    def predictions_of(self, targets: np.ndarray) -> np.ndarray:
        return log_odds(targets)

    @property
    def _limits(self) -> tuple[float, ...]:
        return self.thresholds or (DEFAULT_THRESHOLD,) * len(self.labels)

    def fit(self, examples: Sequence[Example], predictions: np.ndarray) -> Self:
        """Returns the kind with the thresholds of the highest F1."""
        ids = label_ids(examples, self.accepted_labels)
        chosen = choose_thresholds(ids, self.probabilities(predictions))
        return dataclasses.replace(self, thresholds=tuple(chosen))

    def measure(self, examples: Sequence[Example], predictions: np.ndarray) -> Quality:
        """Also measures the loss; the thresholds are metrics `threshold_<label>`."""
        ids = label_ids(examples, self.accepted_labels)
        probabilities = self.probabilities(predictions)
        values, scores = score_labels(ids, probabilities, self._limits)
        if "roc_auc" in self.metrics:
            values["roc_auc"] = roc_auc(ids, probabilities)
        named = dict(zip(self.labels, scores, strict=True))
        metrics = {
            **{name: values[name] for name in self.metrics if name in values},
            **{f"threshold_{label}": score.threshold for label, score in named.items()},
            "loss": float(batch_loss(self.loss, {"label_ids": ids}, predictions)),
        }
        return Quality(metrics, tables={"label_scores.tsv": lambda: label_scores(named)})

    def result(self, examples: Sequence[Example], predictions: np.ndarray) -> LabelSets:
        """Returns the predicted labels and the probabilities of all labels."""
        found = self.interpretation(tf.constant(predictions))
        labels = [tuple(filter(None, row)) for row in decode(found["label"].numpy())]
        probabilities = found["probabilities"].numpy()
        return LabelSets(hide_blank(examples, labels), hide_blank(examples, probabilities))

    def interpretation(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """Maps logits to `probabilities` and `label`, (B, k) each.

        `label` has the names of the labels whose probabilities reach their thresholds, and "" for others.
        """
        probabilities = tf.nn.sigmoid(logits)
        is_chosen = probabilities >= tf.constant(self._limits, tf.float32)
        numbers = tf.range(1, len(self.labels) + 1, dtype=tf.int64)
        names = tf.constant(["", *self.labels])
        return {
            "probabilities": probabilities,
            "label": tf.gather(names, tf.where(is_chosen, numbers, 0)),
        }
