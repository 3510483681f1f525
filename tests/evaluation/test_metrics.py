import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from albert_tf.data.fine_tuning.cells import to_tsv
from albert_tf.evaluation.metrics import (
    METRICS,
    THRESHOLD_METRICS,
    choose_threshold,
    choose_thresholds,
    compute_metrics,
    confusion_matrix,
    is_collapsed,
    roc_auc,
    score_labels,
)

LABELS = np.array([1] * 5 + [0] * 3 + [1] * 2 + [0] * 7)


@pytest.mark.parametrize("spread", [0.0, 1e-6])
def test_nearly_constant_scores_give_no_warning(spread):
    labels = np.linspace(0, 5, 50, dtype=np.float32)
    scores = np.float32(2.5) + np.float32(spread) * np.float32(np.arange(50) % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = compute_metrics(["pearson", "spearman"], labels, scores)
    assert all(-1 <= value <= 1 for value in values.values())


@pytest.mark.parametrize("predicted", [0, 1])
@pytest.mark.parametrize("labels", [LABELS, np.zeros_like(LABELS), np.ones_like(LABELS)])
def test_a_single_class_gives_no_warning(labels, predicted):
    predictions = np.full_like(labels, predicted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = compute_metrics(list(METRICS), labels, predictions)
    assert values["matthews_corrcoef"] == 0.0
    assert values["accuracy"] == pytest.approx(np.mean(labels == predicted))
    assert values["f1"] == pytest.approx(2 * labels.mean() / (1 + labels.mean()) * predicted)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=40))
def test_areas_under_the_curve_are_those_of_scikit_learn(rows):
    ids, numbers = np.array(rows).T
    scores = np.random.default_rng(0).dirichlet(np.ones(3), 10)[numbers]
    is_label = ids[:, None] == np.arange(3)
    area = roc_auc(is_label, scores)
    if len(set(ids)) == 3:
        assert area == pytest.approx(metrics.roc_auc_score(ids, scores, multi_class="ovr"))
    if len(set(ids)) == 1:
        assert area == 0.5
    two = (ids > 0)[:, None]
    if 0 < two.sum() < len(two):
        expected = metrics.roc_auc_score(two[:, 0], scores[:, 1])
        assert roc_auc(two, scores[:, 1:2]) == pytest.approx(expected)


@settings(deadline=None, derandomize=True)
@given(
    st.sampled_from(list(THRESHOLD_METRICS)),
    st.lists(
        st.tuples(
            st.integers(0, 1), st.floats(0, 1, width=32) | st.sampled_from([0, 0.5, 1 - 2**-24, 1])
        ),
        min_size=1,
        max_size=30,
    ),
)
def test_no_threshold_is_better_by_the_metric(name, rows):
    labels = np.array([label for label, _ in rows])
    probabilities = np.array([probability for _, probability in rows], np.float32)

    def value(threshold):
        return METRICS[name](labels, (probabilities >= np.float32(threshold)).astype(int))

    threshold = choose_threshold(labels, probabilities, name)
    assert 0 <= threshold <= 1
    ordered = np.sort(np.append(probabilities, np.float32([0, 1])))
    limits = [high for low, high in itertools.pairwise(ordered) if high - low > 1e-5]
    best = max(map(value, (0.0, *limits)))
    assert value(threshold) == pytest.approx(best)
    assert choose_threshold(labels, probabilities, name, known=threshold) == threshold
    for other in (0.25, 0.75):
        kept = choose_threshold(labels, probabilities, name, known=other)
        assert (kept == other) == (value(other) > best - 1e-9)


ALIKE = np.random.default_rng(0).uniform(0.249, 0.251, (100, 4))


@pytest.mark.parametrize(
    ("probabilities", "labels", "collapsed"),
    [
        # One class, at the prior; with a little noise; surer than it may be.
        (np.full(17, 0.4), LABELS, True),
        (np.linspace(0.39, 0.41, 17), LABELS, True),
        (np.full(17, 0.1), LABELS, True),
        # No class, but rows that are alike, also of four choices.
        (np.linspace(0.499, 0.501, 17), LABELS, True),
        (ALIKE, np.arange(100) % 4, True),
        # One class, and yet the rows differ as the labels do.
        (0.2 + 0.25 * LABELS, LABELS, False),
        # As bad as guessing, but of two classes.
        (np.linspace(0.3, 0.7, 17), LABELS, False),
        # Nothing can be learnt.
        (np.full(17, 0.5), np.zeros_like(LABELS), False),
    ],
)
def test_model_with_one_answer_has_collapsed(probabilities, labels, collapsed):
    if probabilities.ndim == 1:
        probabilities = np.stack([1 - probabilities, probabilities], axis=1)
    loss = -np.log(probabilities[np.arange(len(labels)), labels]).mean()
    assert is_collapsed(probabilities, labels, loss) == collapsed


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    labels = (rng.random((60, 5)) < [0.1, 0.3, 0.5, 0.9, 0.0]).astype(np.float32)
    probabilities = np.clip(0.3 * labels + 0.7 * rng.random((60, 5)), 0, 1).round(1)
    return labels, probabilities.astype(np.float32)


def test_thresholds_have_the_highest_f1(data):
    labels, probabilities = data
    thresholds = choose_thresholds(labels, probabilities)
    assert thresholds[4] == 0.5
    for label in range(4):
        scores = {
            limit: metrics.f1_score(labels[:, label], probabilities[:, label] >= limit)
            for limit in (*np.arange(0, 1.01, 0.05), thresholds[label])
        }
        assert scores[thresholds[label]] == max(scores.values())
        assert np.abs(probabilities[:, label] - thresholds[label]).min() > 0.02


def test_metrics_are_those_of_scikit_learn(data):
    labels, probabilities = data
    thresholds = [0.4, 0.5, 0.6, 0.5, 0.5]
    predictions = probabilities >= np.array(thresholds, np.float32)
    received, scores = score_labels(labels, probabilities, thresholds)
    assert set(received) == {"micro_f1", "macro_f1", "mean_average_precision"}
    for average in ("micro", "macro"):
        expected = metrics.f1_score(labels, predictions, average=average, zero_division=0.0)
        assert received[f"{average}_f1"] == expected
    expected = metrics.average_precision_score(labels[:, :4], probabilities[:, :4])
    assert received["mean_average_precision"] == pytest.approx(expected)
    assert np.mean([each.f1 for each in scores]) == pytest.approx(received["macro_f1"])
    assert [each.support for each in scores] == labels.sum(axis=0).tolist()
    assert np.isnan(scores[4].average_precision)


def test_one_label_and_none(data):
    labels, probabilities = (columns[:, 1:2] for columns in data)
    received, _ = score_labels(labels, probabilities, [0.5])
    expected = metrics.f1_score(labels[:, 0], probabilities[:, 0] >= 0.5)
    assert received["micro_f1"] == received["macro_f1"] == expected
    nothing = np.zeros((3, 2), np.float32)
    received, _ = score_labels(nothing, nothing, choose_thresholds(nothing, nothing))
    assert received == {"micro_f1": 0.0, "macro_f1": 0.0, "mean_average_precision": 0.0}


def test_tables():
    matrix = confusion_matrix(("a", "b", "c"), [0, 0, 1, 1, 1], [0, 2, 1, 1, 0])
    assert matrix == "label\ta\tb\tc\na\t1\t0\t1\nb\t1\t2\t0\nc\t0\t0\t0\n"
    row = {"x": 1 / 3, "y": 2, "z": ("a", "b"), 't"': 'a "b"', "u": '"a" b\t'}
    assert to_tsv([row]) == 'x\ty\tz\tt"\tu\n0.333333333\t2\ta|b\ta "b"\t"""a"" b "\n'
