"""Metrics of label sets against scikit-learn, and thresholds against a search of all of them."""

import numpy as np
import pytest
from sklearn import metrics

from albert_tf.evaluation.label_sets import (
    choose_thresholds,
    compute_label_metrics,
    score_labels,
)


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
            for limit in (*np.arange(0, 1.01, 0.01), thresholds[label])
        }
        assert scores[thresholds[label]] == max(scores.values())
        assert np.abs(probabilities[:, label] - thresholds[label]).min() > 0.02


def test_metrics_are_those_of_scikit_learn(data):
    labels, probabilities = data
    thresholds = [0.4, 0.5, 0.6, 0.5, 0.5]
    predictions = probabilities >= np.array(thresholds, np.float32)
    received = compute_label_metrics(labels, probabilities, thresholds)
    assert set(received) == {"micro_f1", "macro_f1", "mean_average_precision"}
    for average in ("micro", "macro"):
        expected = metrics.f1_score(labels, predictions, average=average, zero_division=0.0)
        assert received[f"{average}_f1"] == expected
    expected = metrics.average_precision_score(labels[:, :4], probabilities[:, :4])
    assert received["mean_average_precision"] == pytest.approx(expected)
    scores = score_labels(labels, probabilities, thresholds)
    assert np.mean([each.f1 for each in scores]) == pytest.approx(received["macro_f1"])
    assert [each.support for each in scores] == labels.sum(axis=0).tolist()
    assert np.isnan(scores[4].average_precision)


def test_no_label_at_all():
    nothing = np.zeros((3, 2), np.float32)
    received = compute_label_metrics(nothing, nothing, choose_thresholds(nothing, nothing))
    assert received == {"micro_f1": 0.0, "macro_f1": 0.0, "mean_average_precision": 0.0}
