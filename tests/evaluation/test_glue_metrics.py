import math
import warnings

import numpy as np
import pytest

from albert_tf.evaluation.glue_metrics import METRICS, compute_metrics, is_collapsed

# 5 true positives, 3 false positives, 2 false negatives, 7 true negatives
LABELS = np.array([1] * 5 + [0] * 3 + [1] * 2 + [0] * 7)
PREDICTIONS = np.array([1] * 8 + [0] * 9)


def test_values_follow_the_definitions():
    values = compute_metrics(["matthews_corrcoef", "f1", "accuracy"], LABELS, PREDICTIONS)
    assert list(values) == ["matthews_corrcoef", "f1", "accuracy"]
    assert values["accuracy"] == pytest.approx((5 + 7) / 17)
    assert values["f1"] == pytest.approx(2 * 5 / (2 * 5 + 3 + 2))
    assert values["matthews_corrcoef"] == pytest.approx(
        (5 * 7 - 3 * 2) / math.sqrt((5 + 3) * (5 + 2) * (7 + 3) * (7 + 2))
    )
    assert {type(value) for value in values.values()} == {float}


def test_only_the_metrics_asked_for_are_computed():
    assert set(compute_metrics(["f1"], LABELS, PREDICTIONS)) == {"f1"}


def test_more_than_two_classes():
    values = compute_metrics(["accuracy"], np.array([0, 1, 2, 2]), np.array([0, 2, 2, 2]))
    assert values == {"accuracy": 0.75}


def test_correlations_follow_the_definitions():
    labels = np.float32([0, 5, 2.5, 4, 4])
    scores = np.float32([0.1, 2, 0.3, 0.4, 0.35])
    values = compute_metrics(["pearson", "spearman"], labels, scores)
    assert values["pearson"] == pytest.approx(np.corrcoef(labels, scores)[0, 1], rel=1e-6)
    ranks = [1, 5, 2, 3.5, 3.5], [1, 5, 2, 4, 3]
    assert values["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1], rel=1e-6)


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


def test_perfect_predictions_have_the_highest_metrics():
    assert compute_metrics(list(METRICS), LABELS, LABELS) == dict.fromkeys(METRICS, 1.0)
    worse = compute_metrics(list(METRICS), LABELS, 1 - LABELS)
    assert all(value < 1.0 for value in worse.values())


@pytest.mark.parametrize(
    ("probabilities", "collapsed"),
    [
        # One class, at the prior; with a little noise; surer than it may be.
        (np.full(17, 0.4), True),
        (np.linspace(0.39, 0.41, 17), True),
        (np.full(17, 0.1), True),
        # No class, but rows that are alike.
        (np.linspace(0.499, 0.501, 17), True),
        # One class, and yet the rows differ as the labels do.
        (0.2 + 0.25 * LABELS, False),
        # As bad as guessing, but of two classes.
        (np.linspace(0.3, 0.7, 17), False),
    ],
)
def test_model_with_one_answer_has_collapsed(probabilities, collapsed):
    both = np.stack([1 - probabilities, probabilities], axis=1)
    assert is_collapsed(both, LABELS, loss(both, LABELS)) == collapsed


def loss(probabilities, labels):
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


def test_no_collapse_with_labels_of_one_class():
    assert not is_collapsed(np.full((5, 2), 0.5), np.zeros(5, np.int64), math.log(2))


def test_collapse_of_multiple_choice():
    rng = np.random.default_rng(0)
    probabilities = 0.25 + rng.uniform(-1e-3, 1e-3, (100, 4))
    labels = rng.integers(0, 4, 100)
    assert is_collapsed(probabilities, labels, loss(probabilities, labels))
