"""Metrics of predictions of any number of labels, from scikit-learn, and the thresholds of the labels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn import metrics

# Of a label that no example has.
_NO_THRESHOLD = 0.5


class LabelScores(NamedTuple):
    """The scores of one label.

    Attributes:
        threshold: probability from which on it is predicted.
        precision: fraction of its predictions that are right.
        recall: fraction of the examples with it for which it is predicted.
        f1: harmonic mean of both.
        average_precision: area under the precision-recall curve; nan if no example has the label.
        support: number of examples with it.
    """

    threshold: float
    precision: float
    recall: float
    f1: float
    average_precision: float
    support: int


def choose_thresholds(labels: np.ndarray, probabilities: np.ndarray) -> list[float]:
    """Returns for each label the threshold with the highest F1.

    It is halfway between two probabilities, so that rounding does not change a prediction.

    Args:
        labels: 0 or 1 (n, k).
        probabilities: float (n, k).
    """
    return [_choose(*columns) for columns in zip(labels.T, probabilities.T, strict=True)]


def _choose(labels: np.ndarray, probabilities: np.ndarray) -> float:
    if not labels.any():
        return _NO_THRESHOLD
    precision, recall, limits = metrics.precision_recall_curve(labels, probabilities)
    # The last point of the curve has no limit. The sum is 0 where nothing is right.
    precision, recall = precision[:-1], recall[:-1]
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    best = int(f1.argmax())
    below = limits[best - 1] if best else 0.0
    return float(limits[best] + below) / 2


def compute_label_metrics(
    labels: np.ndarray, probabilities: np.ndarray, thresholds: Sequence[float]
) -> dict[str, float]:
    """Returns `micro_f1`, over all labels of all examples, `macro_f1` and `mean_average_precision`.

    The last two are means over the labels; that of average precisions is over those that an example has.

    Args:
        labels: 0 or 1 (n, k).
        probabilities: float (n, k).
        thresholds: k probabilities from which on a label is predicted.
    """
    predictions = probabilities >= np.array(thresholds, np.float32)
    f1 = {
        f"{average}_f1": float(
            metrics.f1_score(labels, predictions, average=average, zero_division=0.0)
        )
        for average in ("micro", "macro")
    }
    used = labels.any(axis=0)
    precisions = _average_precisions(labels[:, used], probabilities[:, used])
    return {**f1, "mean_average_precision": float(np.mean(precisions)) if used.any() else 0.0}


def score_labels(
    labels: np.ndarray, probabilities: np.ndarray, thresholds: Sequence[float]
) -> list[LabelScores]:
    """Returns the scores of each label; for the arguments see `compute_label_metrics`."""
    predictions = probabilities >= np.array(thresholds, np.float32)
    by_label = metrics.precision_recall_fscore_support(labels, predictions, zero_division=0.0)
    precisions = np.full(len(thresholds), np.nan)
    used = labels.any(axis=0)
    precisions[used] = _average_precisions(labels[:, used], probabilities[:, used])
    columns = (thresholds, *by_label[:3], precisions, by_label[3].astype(int))
    return [LabelScores(*map(float, row[:-1]), int(row[-1])) for row in zip(*columns, strict=True)]


def _average_precisions(labels: np.ndarray, probabilities: np.ndarray) -> list[float]:
    return [
        metrics.average_precision_score(*columns)
        for columns in zip(labels.T, probabilities.T, strict=True)
    ]
