"""Whether probabilities mean what they say, and the temperature that makes them (Guo et al. 2017).

"On calibration of modern neural networks", https://arxiv.org/abs/1706.04599.
"""

import math

import numpy as np
from scipy.special import log_softmax, logit, softmax

# Theirs, of equal width.
_BINS = 15

# Temperatures are looked for up to this one, and down to its inverse.
_MOST = 20.0


def calibration_error(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Returns the expected calibration error of n > 0 predictions: 0 is best, 1 worst.

    Predictions fall into bins by their confidence, the highest probability. In each bin the mean
    confidence should be the fraction of right predictions; the error is the mean difference, weighted by
    the bins' sizes (Naeini et al. 2015, as Guo et al. define it). Labels are int (n,), probabilities
    float (n, k).
    """
    confidence = probabilities.max(axis=-1).astype(np.float64)
    surplus = confidence - (probabilities.argmax(axis=-1) == labels)
    # The bin of number m is ((m - 1) / 15, m / 15].
    bins = np.ceil(confidence * _BINS).astype(int)
    sums = np.bincount(bins, weights=surplus)
    return float(np.abs(sums).sum() / len(labels))


def fit_temperature(labels: np.ndarray, logits: np.ndarray) -> float | None:
    """Returns the temperature T > 0 for which the mean cross-entropy of `logits / T` is lowest.

    The cross-entropy is convex in 1 / T, so its derivative has one root at most. None if there is none
    between 1/20 and 20, as where all answers are right: the surer, the better. Labels are int (n,),
    logits float (n, k).
    """
    from scipy.optimize import brentq

    logits = logits.astype(np.float64)
    true = np.take_along_axis(logits, labels[:, None].astype(int), axis=-1)[:, 0]

    def slope(log_temperature: float) -> float:
        probabilities = softmax(logits * math.exp(-log_temperature), axis=-1)
        return float(((probabilities * logits).sum(axis=-1) - true).mean())

    limit = math.log(_MOST)
    if not slope(-limit) > 0 > slope(limit):
        return None
    return math.exp(brentq(slope, -limit, limit))


def with_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Returns the probabilities of logits divided by a temperature, given those of the logits."""
    return softmax(log_probabilities(probabilities) / temperature, axis=-1)


def log_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """Returns logits, float64 (n, k), of probabilities, of which some may have become 0."""
    least = np.finfo(np.float32).tiny
    return log_softmax(np.log(np.maximum(probabilities.astype(np.float64), least)), axis=-1)


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """Returns logits, float64 (n, k), of probabilities of single labels, which may have become 0 or 1."""
    margin = np.finfo(np.float32).eps
    return logit(np.clip(probabilities.astype(np.float64), margin, 1 - margin))
