"""What thresholds on the null odds give: a question whose odds are above one counts as unanswered.

The null odds of a question say how surely its passage holds no answer; only their order matters. Two
searches are here, because the official one reports what it finds and ours decides what is written:

* `official_best_threshold` is that of `evaluate-v2.0.py`. It may stop between questions of equal odds,
  and calls 0 the threshold that answers nothing, so its score is not always one that its threshold gives.
* `search_threshold` tries only what a threshold can do, so the written file has the score that it found.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

Scores = Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class PrecisionRecallCurve:
    """Precision over recall as more and more questions are answered, the surest first.

    Attributes:
        precisions: float64 (p,), from 1 for nothing answered.
        recalls: float64 (p,), rising from 0.
        average: the precisions weighted with the steps of the recalls, in percent.
    """

    precisions: np.ndarray
    recalls: np.ndarray
    average: float


def apply_threshold(
    scores: Scores, null_odds: Scores, has_answer: Mapping[str, bool], threshold: float
) -> dict[str, float]:
    """Returns the scores when answers with null odds above the threshold are taken back."""
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
        scores: question's id -> score of its prediction, of n > 0 questions.
        predictions: question's id -> answer, empty for none.
        null_odds: question's id -> its null odds.
        has_answer: question's id -> whether its passage holds an answer, of all questions.

    Returns:
        the score in percent, and the threshold.
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
    """Returns the lowest threshold that makes the sum of the scores greatest.

    Args:
        scores: question's id -> score of its prediction, of n > 0 questions.
        null_odds: question's id -> its null odds, finite, of the same questions.
        has_answer: question's id -> whether its passage holds an answer.

    Returns:
        the null odds of the last question that is answered; where it is best to answer none, the number
        before the lowest null odds.
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
    """Returns a threshold that does the same, halfway to the next higher null odds, where there are any.

    Another program on another machine rounds null odds otherwise; at the threshold itself that would
    decide.

    Args:
        threshold: from `search_threshold`.
        null_odds: of the same questions.
    """
    higher = min((odds for odds in null_odds.values() if odds > threshold), default=threshold)
    middle = threshold + (higher - threshold) / 2
    return middle if middle < higher else threshold


def precision_recall_curves(
    exact: Scores, f1: Scores, null_odds: Scores, has_answer: Mapping[str, bool]
) -> dict[str, PrecisionRecallCurve]:
    """Returns the curves `exact`, `f1` and `oracle`; none where no question has an answer.

    Args:
        exact: question's id -> exact match of its prediction; missing ones count 0.
        f1: question's id -> F1 of its prediction; missing ones count 0.
        null_odds: question's id -> its null odds.
        has_answer: question's id -> whether its passage holds an answer, of all questions.
    """
    if not any(has_answer.values()):
        return {}
    kinds = {"exact": exact, "f1": f1, "oracle": dict.fromkeys(has_answer, 1.0)}
    return {kind: _curve(scores, null_odds, has_answer) for kind, scores in kinds.items()}


def _curve(
    scores: Scores, null_odds: Scores, has_answer: Mapping[str, bool]
) -> PrecisionRecallCurve:
    names, odds = _rank(null_odds, has_answer)
    right = np.cumsum([scores.get(name, 0.0) * has_answer[name] for name in names])
    ends = _last_of_equals(odds)
    precisions = np.concatenate([[1.0], right[ends] / (ends + 1)])
    recalls = np.concatenate([[0.0], right[ends] / sum(has_answer.values())])
    average = 100.0 * float(np.sum(precisions[1:] * np.diff(recalls)))
    return PrecisionRecallCurve(precisions, recalls, average)


def _rank(null_odds: Scores, questions: Mapping[str, object]) -> tuple[list[str], np.ndarray]:
    """Returns the questions by rising null odds, equal ones as they come, and these odds."""
    names = [name for name in null_odds if name in questions]
    odds = np.array([null_odds[name] for name in names], np.float64)
    order = np.argsort(odds, kind="stable")
    return [names[index] for index in order], odds[order]


def _last_of_equals(odds: np.ndarray) -> np.ndarray:
    """Returns the last index of each run of equal values: where a threshold can cut."""
    return np.flatnonzero(np.append(odds[1:] != odds[:-1], True))
