"""Thresholds on the null odds: a question whose null odds are above the threshold is unanswered.

The null odds of a question are the confidence that its passage holds no answer. Only their order matters.
There are two searches, since the official one is only reported and ours decides what is written:

* `official_best_threshold` is that of `evaluate-v2.0.py`. It may separate questions with equal odds,
and its threshold for answering nothing is 0. So its threshold does not always give its score. *
`search_threshold` tries only possible thresholds, so the written file has the score that it found.
"""

import math
from collections.abc import Mapping

import numpy as np

Scores = Mapping[str, float]


def apply_threshold(
    scores: Scores, null_odds: Scores, has_answer: Mapping[str, bool], threshold: float
) -> dict[str, float]:
    """Returns the scores if answers with null odds above the threshold are discarded."""
    return {
        name: float(not has_answer[name]) if null_odds[name] > threshold else score
        for name, score in scores.items()
    }


def official_best_threshold(
    scores: Scores,
    predictions: Mapping[str, str],
    null_odds: Scores,
    has_answer: Mapping[str, bool],
) -> tuple[float, float]:
    """Finds the best threshold as `evaluate-v2.0.py` does.

    Args:
        scores: question id -> score of the prediction, for n > 0 questions.
        predictions: question id -> answer, empty for none.
        null_odds: question id -> null odds.
        has_answer: question id -> whether the passage holds an answer, for all questions.

    Returns:
        The score in percent, and the threshold.
    """
    names, odds = _rank(null_odds, scores)
    gains = [
        scores[name] if has_answer[name] else -1.0 if predictions[name] else 0.0 for name in names
    ]
    unanswerable = sum(not answerable for answerable in has_answer.values())
    totals = np.cumsum([unanswerable, *gains])
    best = int(np.argmax(totals))
    threshold = float(odds[best - 1]) if best else 0.0
    return float(100.0 * totals[best] / len(scores)), threshold


def search_threshold(scores: Scores, null_odds: Scores, has_answer: Mapping[str, bool]) -> float:
    """Returns the lowest threshold with the highest sum of scores.

    Args:
        scores: question id -> score of the prediction, for n > 0 questions.
        null_odds: question id -> null odds, finite, for the same questions.
        has_answer: question id -> whether the passage holds an answer.

    Returns:
        The null odds of the last question to answer; if it is best to answer none, the number just
        below the lowest null odds.
    """
    names, odds = _rank(null_odds, scores)
    gains = [scores[name] - (not has_answer[name]) for name in names]
    ends = _last_of_equals(odds)
    totals = np.cumsum([sum(not has_answer[name] for name in names), *gains])[
        np.append(0, ends + 1)
    ]
    thresholds = np.concatenate([[math.nextafter(odds[0], -math.inf)], odds[ends]])
    return float(thresholds[np.argmax(totals)])


def with_margin(threshold: float, null_odds: Scores) -> float:
    """Returns an equivalent threshold, halfway to the next higher null odds if there are any.

    Other programs and machines round null odds differently, which must not matter at the threshold.

    Args:
        threshold: from `search_threshold`.
        null_odds: null odds of the same questions.
    """
    higher = min((odds for odds in null_odds.values() if odds > threshold), default=threshold)
    middle = threshold + (higher - threshold) / 2
    return middle if middle < higher else threshold


def average_precision(scores: Scores, null_odds: Scores, has_answer: Mapping[str, bool]) -> float:
    """Returns the average precision as more and more questions are answered, in percent.

    Questions are answered in the order of their null odds. Each precision is weighted with the increment
    of the recall. scikit-learn's takes labels of 0 and 1, but an answer's F1 is between.

    Args:
        scores: question id -> score of the prediction; missing ones count as 0.
        null_odds: question id -> null odds.
        has_answer: question id -> whether the passage holds an answer, for all questions, at least one
            of which has one.
    """
    names, odds = _rank(null_odds, has_answer)
    right = np.cumsum([scores.get(name, 0.0) * has_answer[name] for name in names])
    ends = _last_of_equals(odds)
    precisions = right[ends] / (ends + 1)
    recalls = np.concatenate([[0.0], right[ends] / sum(has_answer.values())])
    return 100.0 * float(np.sum(precisions * np.diff(recalls)))


def _rank(null_odds: Scores, questions: Mapping[str, object]) -> tuple[list[str], np.ndarray]:
    """Returns the questions by ascending null odds, in their order if equal, and these odds."""
    names = [name for name in null_odds if name in questions]
    odds = np.array([null_odds[name] for name in names], np.float64)
    order = np.argsort(odds, kind="stable")
    return [names[index] for index in order], odds[order]


def _last_of_equals(odds: np.ndarray) -> np.ndarray:
    """Returns the last index of each run of equal values: the possible cuts of a threshold."""
    return np.flatnonzero(np.append(odds[1:] != odds[:-1], True))
