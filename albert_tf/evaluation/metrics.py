"""The metrics of classes, scores and sets of labels, from scikit-learn and SciPy, and tables of them."""

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

# Metrics of which lower values are better; of all others higher ones.
LOWER_IS_BETTER = frozenset({"loss"})

# Threshold of a label that no example has, and of a model without a dev set.
DEFAULT_THRESHOLD = 0.5
# Probabilities that differ by less are on the same side of a threshold: other programs and machines round
# them differently.
_LEAST_GAP = 1e-5


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
    """Returns those of `METRICS` of n > 0 true and predicted classes, int (n,), or scores, float (n,)."""
    known = (name for name in names if name in METRICS)
    return {name: float(METRICS[name](labels, predictions)) for name in known}


def roc_auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns the area under the ROC curve, as the mean over the labels: each against all others.

    Labels that all or none of the n > 0 examples have do not count; if none counts, it is that of
    guessing, 0.5. Arrays are (n, k), labels 0 or 1. Scores of two classes need the second one alone.
    """
    areas = [
        metrics.roc_auc_score(column, of_column)
        for column, of_column in zip(labels.T, scores.T, strict=True)
        if 0 < np.count_nonzero(column) < len(column)
    ]
    return float(np.mean(areas)) if areas else 0.5


class _Counts(NamedTuple):
    """Numbers of examples of two classes for each of c ways to predict them, float (c,)."""

    true_positives: np.ndarray
    false_positives: np.ndarray
    false_negatives: np.ndarray
    true_negatives: np.ndarray


def _f1(right: np.ndarray, counts: _Counts) -> np.ndarray:
    wrong = counts.false_positives + counts.false_negatives
    return 2 * right / np.maximum(2 * right + wrong, 1)


def _matthews_corrcoef(counts: _Counts) -> np.ndarray:
    tp, fp, fn, tn = counts
    spread = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return (tp * tn - fp * fn) / np.where(spread > 0, spread, np.inf)


# Metric by which a threshold of two classes can be chosen -> its values, those of `METRICS`.
THRESHOLD_METRICS: Mapping[str, Callable[[_Counts], np.ndarray]] = {
    "accuracy": lambda counts: (counts.true_positives + counts.true_negatives) / sum(counts),
    "f1": lambda counts: _f1(counts.true_positives, counts),
    "macro_f1": lambda counts: (
        (_f1(counts.true_positives, counts) + _f1(counts.true_negatives, counts)) / 2
    ),
    "matthews_corrcoef": _matthews_corrcoef,
}


def choose_threshold(
    labels: np.ndarray, probabilities: np.ndarray, metric: str, known: float | None = None
) -> float:
    """Returns the threshold from which on the second of two classes is predicted, best by a metric.

    It is halfway between two probabilities that differ by more than rounding, and of equally good ones
    the nearest to 0.5; `known`, if that is as good. Labels are 0 or 1, int (n,), probabilities of the
    second class float32 (n,).
    """
    order = np.argsort(probabilities)
    ordered, is_positive = probabilities[order], labels[order] == 1
    # By the number of the least probable examples for which the first class is predicted.
    negatives = np.append(0, np.cumsum(~is_positive)).astype(np.float64)
    positives = np.append(0, np.cumsum(is_positive)).astype(np.float64)
    values = THRESHOLD_METRICS[metric](
        _Counts(
            true_positives=positives[-1] - positives,
            false_positives=negatives[-1] - negatives,
            false_negatives=positives,
            true_negatives=negatives,
        )
    )
    below, above = np.append(np.float32(0), ordered), np.append(ordered, np.float32(1))
    thresholds = below / 2 + above / 2
    is_cut = above - below > _LEAST_GAP
    is_cut[0] = True  # from 0 on all are of the second class
    if known is not None:
        place = np.searchsorted(ordered, np.float32(known))
        if values[place] >= values[is_cut].max():
            return known
    is_best = is_cut & (values == values[is_cut].max())
    best = thresholds[is_best]
    return float(best[np.abs(best - 0.5).argmin()])


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
