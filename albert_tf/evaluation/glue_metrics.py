"""The metrics of the GLUE tasks, from scikit-learn. Of each the higher value is the better."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from sklearn import metrics

Metric = Callable[[np.ndarray, np.ndarray], float]


def _f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1; 0 where neither labels nor predictions have one."""
    return metrics.f1_score(labels, predictions, pos_label=1, zero_division=0.0)


def _matthews_corrcoef(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews' correlation; 0, its limit for guessing, where one side has a single class."""
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return 0.0
    return metrics.matthews_corrcoef(labels, predictions)


METRICS: Mapping[str, Metric] = {
    "accuracy": metrics.accuracy_score,
    "f1": _f1,
    "matthews_corrcoef": _matthews_corrcoef,
}


def compute_metrics(
    names: Sequence[str], labels: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """Returns name -> value.

    Args:
        names: keys of `METRICS`.
        labels: int (n,), the true class ids, n > 0.
        predictions: int (n,), the predicted class ids.
    """
    return {name: float(METRICS[name](labels, predictions)) for name in names}
