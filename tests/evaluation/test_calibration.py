"""The temperature against SciPy's minimiser, and the calibration error against its definition."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.metrics import log_loss

from albert_tf.evaluation.calibration import (
    calibration_error,
    fit_temperature,
    log_probabilities,
    with_temperature,
)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def draw(classes, temperature, count=400):
    """Labels, drawn from the probabilities of logits, and the logits times a temperature."""
    rng = np.random.default_rng(classes)
    logits = 2 * rng.normal(size=(count, classes))
    labels = np.array([rng.choice(classes, p=row) for row in softmax(logits)])
    return labels, (logits * temperature).astype(np.float32)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperature_has_the_lowest_loss(classes, temperature):
    labels, logits = draw(classes, temperature)

    def loss(divisor):
        return log_loss(labels, softmax(logits.astype(np.float64) / divisor), labels=range(classes))

    expected = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-8})
    received = fit_temperature(labels, logits)
    assert received == pytest.approx(expected.x, rel=1e-5)
    assert received == pytest.approx(temperature, rel=0.25)
    # The probabilities tell as much, also those that float32 has as 1.
    logits_again = log_probabilities(softmax(logits))
    assert fit_temperature(labels, logits_again) == pytest.approx(received, rel=1e-5)
    rescaled = with_temperature(softmax(logits), received)
    np.testing.assert_allclose(rescaled, softmax(logits / received), atol=1e-6)
    assert calibration_error(labels, rescaled) < 0.08


def test_some_logits_have_no_best_temperature():
    labels, logits = draw(3, 1.0)
    assert fit_temperature(logits.argmax(axis=-1), logits) is None  # all are right
    assert fit_temperature(logits.argmin(axis=-1), logits) is None  # guessing is better
    assert fit_temperature(labels, np.zeros_like(logits)) is None
    assert np.isfinite(log_probabilities(np.array([[0.0, 1.0]], np.float32))).all()


def test_calibration_error_is_that_of_its_definition():
    labels, logits = draw(4, 3.0)
    probabilities = softmax(logits)
    expected, counted = 0.0, 0
    for number in range(15):
        confidence = probabilities.max(axis=-1)
        is_in = (confidence > number / 15) & (confidence <= (number + 1) / 15)
        if is_in.any():
            accuracy = (probabilities.argmax(axis=-1) == labels)[is_in].mean()
            expected += is_in.mean() * abs(accuracy - confidence[is_in].mean())
        counted += is_in.sum()
    assert counted == len(labels)
    assert calibration_error(labels, probabilities) == pytest.approx(expected, abs=1e-6)
    assert expected > 0.1


@pytest.mark.parametrize(
    ("confidence", "labels", "expected"),
    [
        (1.0, [0, 0], 0.0),
        (1.0, [1, 1], 1.0),
        (0.75, [0, 0, 0, 1], 0.0),
        (0.8, [0, 1], 0.3),
    ],
)
def test_calibration_error_of_one_bin(confidence, labels, expected):
    probabilities = np.array([[confidence, 1 - confidence]] * len(labels), np.float32)
    received = calibration_error(np.array(labels), probabilities)
    assert received == pytest.approx(expected, abs=1e-6)
