"""The metrics of the fine-tuning tasks, from scikit-learn and SciPy.

Of each the higher value is the better.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import stats
from sklearn import metrics

Metric = Callable[[np.ndarray, np.ndarray], float]

# Of a classifier that has collapsed: how much of the prior's loss is left at least, and how far apart the
# probabilities of a class in different rows are at most.
_AT_PRIOR = 0.98
_SAME_PROBABILITY = 0.01


def _f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1; 0 where neither labels nor predictions have one."""
    return metrics.f1_score(labels, predictions, pos_label=1, zero_division=0.0)


def _zero_without_spread(metric: Metric) -> Metric:
    """Makes a correlation 0, its limit for guessing, where one side has a single value."""

    def correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
        if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
            return 0.0
        return metric(labels, predictions)

    return correlation


def _pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    # float64, because SciPy warns of scores that are nearly the same, as those of the first steps are.
    return stats.pearsonr(labels.astype(np.float64), predictions.astype(np.float64)).statistic


METRICS: Mapping[str, Metric] = {
    "accuracy": metrics.accuracy_score,
    "f1": _f1,
    "matthews_corrcoef": _zero_without_spread(metrics.matthews_corrcoef),
    "pearson": _zero_without_spread(_pearson),
    "spearman": _zero_without_spread(lambda *sides: stats.spearmanr(*sides).statistic),
}


def is_collapsed(probabilities: np.ndarray, labels: np.ndarray) -> bool:
    """Returns whether a classifier gives all rows the same answer and has learnt no more than the prior.

    Its predictions are all of one class, or its probabilities hardly differ between rows, as those of
    multiple choice, where chance picks the class; and its loss is that of always giving each label the
    probability that it has among all labels.

    Args:
        probabilities: float (n, k), of each class.
        labels: int (n,), the true class ids.
    """
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    if len(shares) < 2:
        return False
    prior_loss = -(shares * np.log(shares)).sum()
    predictions_are_one = len(np.unique(probabilities.argmax(axis=-1))) == 1
    rows_are_alike = np.ptp(probabilities, axis=0).max() < _SAME_PROBABILITY
    of_labels = probabilities[np.arange(len(labels)), labels]
    loss = -np.log(np.maximum(of_labels, np.finfo(np.float32).tiny)).mean()
    return bool((predictions_are_one or rows_are_alike) and loss >= _AT_PRIOR * prior_loss)


def compute_metrics(
    names: Sequence[str], labels: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """Returns name -> value.

    Args:
        names: keys of `METRICS`.
        labels: int (n,), the true class ids, or float (n,), the true scores; n > 0.
        predictions: (n,), what is predicted.
    """
    return {name: float(METRICS[name](labels, predictions)) for name in names}
