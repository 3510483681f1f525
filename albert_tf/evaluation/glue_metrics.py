"""The metrics of the fine-tuning tasks, from scikit-learn and SciPy. Higher values are better."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import stats
from sklearn import metrics

Metric = Callable[[np.ndarray, np.ndarray], float]

# A collapsed classifier has at least this fraction of the prior's loss. Its probabilities of a class, if
# they tell, differ by less than this between rows.
_AT_PRIOR = 0.98
_SAME_PROBABILITY = 0.01


def _f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the F1 of class 1; 0 if neither labels nor predictions have one."""
    return metrics.f1_score(labels, predictions, pos_label=1, zero_division=0.0)


def _zero_without_spread(metric: Metric) -> Metric:
    """Makes a correlation 0, its limit for guessing, if one side has a single value."""

    def correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
        if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
            return 0.0
        return metric(labels, predictions)

    return correlation


def _pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    # In float64, since SciPy warns of nearly constant scores, such as those of the first steps.
    return stats.pearsonr(labels.astype(np.float64), predictions.astype(np.float64)).statistic


METRICS: Mapping[str, Metric] = {
    "accuracy": metrics.accuracy_score,
    "f1": _f1,
    "matthews_corrcoef": _zero_without_spread(metrics.matthews_corrcoef),
    "pearson": _zero_without_spread(_pearson),
    "spearman": _zero_without_spread(lambda *sides: stats.spearmanr(*sides).statistic),
}


def is_collapsed(probabilities: np.ndarray, labels: np.ndarray, loss: float) -> bool:
    """Returns whether a classifier gives all rows the same answer and has learnt no more than the prior.

    Either it predicts a single class, or the probabilities hardly differ between rows, as with multiple
    choice, where chance picks the class. In both cases its loss is about that of always predicting the
    label frequencies.

    Args:
        probabilities: float (n, k), probability of each class.
        labels: int (n,), true classes.
        loss: mean cross-entropy of the probabilities.
    """
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    if len(shares) < 2:
        return False
    prior_loss = -(shares * np.log(shares)).sum()
    predictions_are_one = len(np.unique(probabilities.argmax(axis=-1))) == 1
    rows_are_alike = np.ptp(probabilities, axis=0).max() < _SAME_PROBABILITY
    return bool((predictions_are_one or rows_are_alike) and loss >= _AT_PRIOR * prior_loss)


def compute_metrics(
    names: Sequence[str], labels: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """Returns the metrics by name.

    Args:
        names: keys of `METRICS`.
        labels: int (n,), true classes, or float (n,), true scores; n > 0.
        predictions: (n,), predicted classes or scores.
    """
    return {name: float(METRICS[name](labels, predictions)) for name in names}
