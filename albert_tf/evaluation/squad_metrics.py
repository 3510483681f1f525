"""The metrics of SQuAD 1.1 and 2.0, equal to those of the two official evaluation scripts.

With other `ANSWER_RULES` than SQuAD's those of 1.1 are MLQA's metrics.

The definitions are in Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250, section 6.1, and 2018,
https://arxiv.org/abs/1806.03822, section 5. Open details follow `evaluate-v1.1.py` and
`evaluate-v2.0.py`. The scripts differ in three points:

* If prediction or answer have no tokens, F1 is 0 in version 1.1. In 2.0 it is 1 if both have none.
* Answers without tokens are ignored in 2.0 if there are others.
* A question without a prediction counts as wrong in 1.1. In 2.0 it is excluded from all means.

The null odds of a question are the confidence that its passage holds no answer. Only their order matters.
A question whose null odds are above a threshold is unanswered. There are two searches for the threshold,
since the official one is only reported and ours decides what is written:

* `official_best_threshold` is that of `evaluate-v2.0.py`. It may separate questions with equal odds, and
its threshold for answering nothing is 0. So its threshold does not always give its score.
* `search_threshold` tries only possible thresholds, so the written file has the score that it found.
"""

import collections
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.evaluation.answer_rules import normalize_answer

QuestionScores = Mapping[str, float]
"""Question id -> score, or null odds."""

GoldAnswers = Mapping[str, Sequence[str]]
"""Question id -> texts of the right answers; empty if the passage holds no answer."""


class AnswerScores(NamedTuple):
    """The scores of the answers, between 0 and 1, in the order of the questions."""

    exact: dict[str, float]  # question id -> 1 if the answer is one of the right ones, otherwise 0
    f1: dict[str, float]  # question id -> harmonic mean of precision and recall of the tokens


def score_answers(
    golds: GoldAnswers, predictions: Mapping[str, str], version_2: bool, rules: str = "squad"
) -> AnswerScores:
    """Scores each prediction against the most similar right answer, by one of `ANSWER_RULES`.

    A question without a prediction has the scores 0 in version 1.1, and none in version 2.0, where the
    empty prediction is right if the passage holds no answer.
    """
    scores = AnswerScores({}, {})
    for name, texts in golds.items():
        rights = [normalize_answer(text, rules) for text in texts]
        if version_2:
            rights = list(filter(None, rights)) or [""]
        if name in predictions:
            predicted = normalize_answer(predictions[name], rules)
            scores.exact[name] = float(predicted in rights)
            similarities = (_token_f1(predicted, right, version_2) for right in rights)
            scores.f1[name] = max(similarities, default=0.0)
        elif not version_2:
            scores.exact[name] = scores.f1[name] = 0.0
    return scores


def _token_f1(prediction: str, gold: str, version_2: bool) -> float:
    predicted, right = prediction.split(), gold.split()
    if not predicted and not right:
        return float(version_2)
    shared = (collections.Counter(predicted) & collections.Counter(right)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(right)
    # In this order: another last bit could select another one of two equal thresholds.
    return (2 * precision * recall) / (precision + recall)


def evaluate_v1(
    golds: GoldAnswers, predictions: Mapping[str, str], rules: str = "squad"
) -> dict[str, float]:
    """Returns `exact_match` and `f1` of n > 0 questions in percent, as `evaluate-v1.1.py` does.

    Predictions for other questions are ignored.
    """
    scores = score_answers(golds, predictions, version_2=False, rules=rules)
    return {"exact_match": _percent(scores.exact, golds), "f1": _percent(scores.f1, golds)}


def evaluate_v2(
    golds: GoldAnswers, predictions: Mapping[str, str], rules: str = "squad"
) -> dict[str, float]:
    """Returns `exact` and `f1` in percent, and `total`, the number n > 0 of predictions.

    The same with `HasAns_` and `NoAns_` is over the questions with and without an answer, if any.
    """
    scores = score_answers(golds, predictions, version_2=True, rules=rules)
    names = list(scores.exact)
    kinds = {
        "": names,
        "HasAns_": [name for name in names if golds[name]],
        "NoAns_": [name for name in names if not golds[name]],
    }
    results = {}
    for prefix, of_kind in kinds.items():
        if of_kind:
            results[f"{prefix}exact"] = _percent(scores.exact, of_kind)
            results[f"{prefix}f1"] = _percent(scores.f1, of_kind)
            results[f"{prefix}total"] = len(of_kind)
    return results


def _percent(scores: QuestionScores, names: Collection[str]) -> float:
    return 100.0 * sum(scores[name] for name in names) / len(names)


def find_best_scores(
    golds: GoldAnswers,
    predictions: Mapping[str, str],
    null_odds: QuestionScores,
    rules: str = "squad",
) -> dict[str, float]:
    """Returns the best scores of any threshold, in percent, and its value, as `evaluate-v2.0.py` does.

    Questions without a prediction are excluded, where the script stops with an error. Ties are in the
    order of the null odds, which all predictions have.
    """
    results: dict[str, float] = {}
    scores = score_answers(golds, predictions, version_2=True, rules=rules)
    for kind, of_kind in scores._asdict().items():
        best, threshold = official_best_threshold(
            scores=of_kind, predictions=predictions, null_odds=null_odds, golds=golds
        )
        results |= {f"best_{kind}": best, f"best_{kind}_thresh": threshold}
    return results


def official_best_threshold(
    scores: QuestionScores,
    predictions: Mapping[str, str],
    null_odds: QuestionScores,
    golds: GoldAnswers,
) -> tuple[float, float]:
    """Returns the best score in percent and its threshold, as `evaluate-v2.0.py` finds it."""
    names, odds = _rank(null_odds, scores)
    gains = [scores[name] if golds[name] else -1.0 if predictions[name] else 0.0 for name in names]
    unanswerable = sum(not texts for texts in golds.values())
    totals = np.cumsum([unanswerable, *gains])
    best = int(np.argmax(totals))
    threshold = float(odds[best - 1]) if best else 0.0
    return float(100.0 * totals[best] / len(scores)), threshold


def search_threshold(
    scores: QuestionScores, null_odds: QuestionScores, golds: GoldAnswers
) -> float:
    """Returns the lowest threshold with the highest sum of scores.

    It is the null odds of the last question to answer or, if it is best to answer none, the number just
    below the lowest null odds.
    """
    names, odds = _rank(null_odds, scores)
    gains = [scores[name] - (not golds[name]) for name in names]
    # The last question of each run of equal odds: the possible cuts.
    ends = np.flatnonzero(np.append(odds[1:] != odds[:-1], True))
    unanswerable = sum(not golds[name] for name in names)
    totals = np.cumsum([unanswerable, *gains])  # by the number of questions that are answered
    cuts = np.append(0, ends + 1)
    thresholds = np.concatenate([[math.nextafter(odds[0], -math.inf)], odds[ends]])
    return float(thresholds[np.argmax(totals[cuts])])


def add_margin(threshold: float, null_odds: QuestionScores) -> float:
    """Returns an equivalent threshold, halfway to the next higher null odds if there are any.

    Other programs and machines round null odds differently, which must not matter at the threshold.
    """
    higher = min((odds for odds in null_odds.values() if odds > threshold), default=threshold)
    middle = threshold + (higher - threshold) / 2
    return middle if middle < higher else threshold


def _rank(null_odds: QuestionScores, questions: QuestionScores) -> tuple[list[str], np.ndarray]:
    """Returns the questions by ascending null odds, in their order if equal, and these odds."""
    names = [name for name in null_odds if name in questions]
    odds = np.array([null_odds[name] for name in names], np.float64)
    order = np.argsort(odds, kind="stable")
    return [names[index] for index in order], odds[order]
