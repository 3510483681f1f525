"""The metrics of classes, scores and sets of labels, from scikit-learn and SciPy, and tables of them.

Higher is better.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from albert_tf.data.fine_tuning.cells import join_cells, to_tsv
from albert_tf.lazy import LazyModule

if TYPE_CHECKING:
    from scipy import stats
    from sklearn import metrics
else:
    # A model that only predicts needs neither, and they take a second to import.
    stats, metrics = LazyModule("scipy.stats"), LazyModule("sklearn.metrics")

Metric = Callable[[np.ndarray, np.ndarray], float]

# A collapsed classifier has at least this fraction of the prior's loss. Its probabilities of a class, if
# they tell, differ by less than this between rows.
_AT_PRIOR = 0.98
_SAME_PROBABILITY = 0.01

# Threshold of a label that no example has, and of a model without a dev set.
DEFAULT_THRESHOLD = 0.5


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
    "accuracy": lambda *sides: metrics.accuracy_score(*sides),
    "f1": lambda *sides: metrics.f1_score(*sides, pos_label=1, zero_division=0.0),
    "macro_f1": lambda *sides: metrics.f1_score(*sides, average="macro", zero_division=0.0),
    "matthews_corrcoef": _zero_without_spread(lambda *sides: metrics.matthews_corrcoef(*sides)),
    "pearson": _zero_without_spread(_pearson),
    "spearman": _zero_without_spread(lambda *sides: stats.spearmanr(*sides).statistic),
}


def is_collapsed(probabilities: np.ndarray, labels: np.ndarray, loss: float) -> bool:
    """Returns whether a classifier gives all rows the same answer and has learnt no more than the prior.

    Either it predicts a single class, or the probabilities hardly differ between rows, as with multiple
    choice, where chance picks the class. In both cases its loss is about that of always predicting the
    label frequencies. Probabilities are float (n, k), true labels int (n,); the loss is their mean
    cross-entropy.
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
    """Returns some of `METRICS` of n > 0 true and predicted classes, int (n,), or scores, float (n,)."""
    return {name: float(METRICS[name](labels, predictions)) for name in names}


class LabelScores(NamedTuple):
    """The scores of one label."""

    threshold: float  # probability from which on it is predicted
    precision: float  # fraction of its predictions that are right
    recall: float  # fraction of the examples with it for which it is predicted
    f1: float  # harmonic mean of both
    average_precision: float  # area under the precision-recall curve; nan if no example has it
    support: int  # number of examples with it


def choose_thresholds(labels: np.ndarray, probabilities: np.ndarray) -> list[float]:
    """Returns for each label the threshold with the highest F1; arrays are (n, k), labels 0 or 1.

    It is halfway between two probabilities, so that rounding does not change a prediction.
    """
    return [_choose(*columns) for columns in zip(labels.T, probabilities.T, strict=True)]


def _choose(labels: np.ndarray, probabilities: np.ndarray) -> float:
    if not labels.any():
        return DEFAULT_THRESHOLD
    precision, recall, limits = metrics.precision_recall_curve(labels, probabilities)
    # The last point of the curve has no limit. The sum is 0 where nothing is right.
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    best = int(f1[:-1].argmax())
    below = limits[best - 1] if best else 0.0
    return float(limits[best] + below) / 2


def score_labels(
    labels: np.ndarray, probabilities: np.ndarray, thresholds: Sequence[float]
) -> tuple[dict[str, float], list[LabelScores]]:
    """Returns metrics of sets of labels, and the scores of each label.

    The metrics are `micro_f1`, over all labels of all examples, and the means over the labels `macro_f1`
    and `mean_average_precision`, the latter over those that an example has. A label is predicted from its
    threshold on. Arrays are (n, k), labels 0 or 1.
    """
    # Scikit-learn's own counts of a single label would also be of its absence.
    is_true, is_predicted = labels == 1, probabilities >= np.array(thresholds, np.float32)
    counted = (is_true & is_predicted, is_predicted, is_true)
    right, made, true = (flags.sum(axis=0) for flags in counted)
    average_precisions = [
        metrics.average_precision_score(column, scores) if column.any() else np.nan
        for column, scores in zip(labels.T, probabilities.T, strict=True)
    ]
    columns = (
        thresholds,
        right / np.maximum(made, 1),
        right / np.maximum(true, 1),
        2 * right / np.maximum(made + true, 1),
        average_precisions,
    )
    rows = [
        LabelScores._make([*map(float, row), int(support)])
        for *row, support in zip(*columns, true, strict=True)
    ]
    precisions = [row.average_precision for row in rows if row.support] or [0.0]
    return {
        "micro_f1": float(2 * right.sum() / max(1, (made + true).sum())),
        "macro_f1": float(np.mean([row.f1 for row in rows])),
        "mean_average_precision": float(np.mean(precisions)),
    }, rows


def confusion_matrix(labels: Sequence[str], label_ids: np.ndarray, predicted: np.ndarray) -> str:
    """Returns how often each true label (row) was predicted as each label (column)."""
    counts = metrics.confusion_matrix(label_ids, predicted, labels=range(len(labels))).tolist()
    rows = ((label, *row) for label, row in zip(labels, counts, strict=True))
    return join_cells([("label", *labels), *rows])


def label_scores(scores: Mapping[str, NamedTuple]) -> str:
    """Returns the scores of each label, and the number of its true examples."""
    return to_tsv({"label": label, **row._asdict()} for label, row in scores.items())
