"""The metrics of SQuAD 1.1 and 2.0, equal to those of the two official evaluation scripts.

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
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Scores = Mapping[str, float]
"""Question id -> score, or null odds."""

GoldAnswers = Mapping[str, Sequence[str]]
"""Question id -> texts of the right answers; empty if the passage holds no answer."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Only ASCII: the scripts keep the quotation marks, dashes and full stops of other languages.
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScores(NamedTuple):
    """The scores of the answers, between 0 and 1, in the order of the questions.

    Attributes:
        exact: question id -> 1 if the answer is one of the right ones, otherwise 0.
        f1: question id -> harmonic mean of precision and recall of the tokens.
    """

    exact: dict[str, float]
    f1: dict[str, float]


def which_have_answers(golds: GoldAnswers) -> dict[str, bool]:
    """Returns by question id whether the passage holds an answer."""
    return {name: bool(texts) for name, texts in golds.items()}


def normalize_answer(text: str) -> str:
    """Returns a text in lower case, without punctuation, articles and extra spaces."""
    plain = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def token_f1(prediction: str, gold: str) -> float:
    """Returns the F1 of the tokens of two normalised texts; 0 if they share none."""
    predicted, right = prediction.split(), gold.split()
    shared = (collections.Counter(predicted) & collections.Counter(right)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(right)
    # In this order: another last bit could select another one of two equal thresholds.
    return (2 * precision * recall) / (precision + recall)


def token_f1_or_empty(prediction: str, gold: str) -> float:
    """Returns `token_f1`, or 1 if both are empty."""
    return float(prediction == gold) if not gold else token_f1(prediction, gold)


def score_answers_v1(golds: GoldAnswers, predictions: Mapping[str, str]) -> AnswerScores:
    """Scores predictions as SQuAD 1.1 does: 0 for each question that has none."""
    normalized = {name: [normalize_answer(text) for text in texts] for name, texts in golds.items()}
    scores = _score(normalized, predictions, token_f1)
    unanswered = dict.fromkeys(golds, 0.0)
    return AnswerScores(exact=unanswered | scores.exact, f1=unanswered | scores.f1)


def score_answers_v2(golds: GoldAnswers, predictions: Mapping[str, str]) -> AnswerScores:
    """Scores predictions as SQuAD 2.0 does: only those that exist.

    The empty prediction is right if the passage holds no answer.
    """
    normalized = {
        name: [right for text in texts if (right := normalize_answer(text))] or [""]
        for name, texts in golds.items()
    }
    return _score(normalized, predictions, token_f1_or_empty)


def _score(
    golds: GoldAnswers, predictions: Mapping[str, str], f1: Callable[[str, str], float]
) -> AnswerScores:
    """Scores each prediction against the most similar of the normalised right answers."""
    scores = AnswerScores({}, {})
    for name, texts in golds.items():
        if name in predictions:
            predicted = normalize_answer(predictions[name])
            scores.exact[name] = float(predicted in texts)
            scores.f1[name] = max((f1(predicted, text) for text in texts), default=0.0)
    return scores


def evaluate_v1(golds: GoldAnswers, predictions: Mapping[str, str]) -> dict[str, float]:
    """Evaluates predictions as `evaluate-v1.1.py` does.

    Args:
        golds: right answers to n > 0 questions.
        predictions: question id -> answer; those of other questions are ignored.

    Returns:
        `exact_match` and `f1`, means over all questions, in percent.
    """
    scores = score_answers_v1(golds, predictions)
    return {"exact_match": _percent(scores.exact, golds), "f1": _percent(scores.f1, golds)}


def evaluate_v2(
    golds: GoldAnswers,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    na_prob_thresh: float = 1.0,
) -> dict[str, float]:
    """Evaluates predictions as `evaluate-v2.0.py` does.

    If a question has null odds but no prediction, the script stops with an error. Here it is excluded.

    Args:
        golds: right answers to the questions.
        predictions: question id -> answer, empty for none; at least one question has one.
        null_odds: question id -> confidence that there is no answer, on any scale, for all predictions.
            For the best thresholds, ties are in the order of this mapping.
        na_prob_thresh: answers with null odds above it count as none. The script's default is meant for
            probabilities.

    Returns:
        `exact` and `f1`, in percent, and `total`, the number of predictions; the same with `HasAns_`
        and `NoAns_` over the questions with and without an answer, if there are any. With `null_odds`
        also the best scores of any threshold and the thresholds (`best_exact`, `best_exact_thresh`,
        `best_f1`, `best_f1_thresh`).
    """
    scores = score_answers_v2(golds, predictions)
    has_answer = which_have_answers(golds)
    if null_odds is None:
        return _means_by_kind(scores, has_answer)
    final = AnswerScores(
        exact=apply_threshold(scores.exact, null_odds, has_answer, na_prob_thresh),
        f1=apply_threshold(scores.f1, null_odds, has_answer, na_prob_thresh),
    )
    results = _means_by_kind(final, has_answer)
    for kind, values in (("exact", scores.exact), ("f1", scores.f1)):
        best, threshold = official_best_threshold(values, predictions, null_odds, has_answer)
        results |= {f"best_{kind}": best, f"best_{kind}_thresh": threshold}
    return results


def _means_by_kind(scores: AnswerScores, has_answer: Mapping[str, bool]) -> dict[str, float]:
    """Returns the means over all questions, and over those with and without an answer."""
    names = list(scores.exact)
    kinds = {
        "": names,
        "HasAns_": [name for name in names if has_answer[name]],
        "NoAns_": [name for name in names if not has_answer[name]],
    }
    return {
        prefix + key: value
        for prefix, of_kind in kinds.items()
        if of_kind
        for key, value in _means(scores, of_kind).items()
    }


def _means(scores: AnswerScores, names: Sequence[str]) -> dict[str, float]:
    return {
        "exact": _percent(scores.exact, names),
        "f1": _percent(scores.f1, names),
        "total": len(names),
    }


def _percent(scores: Mapping[str, float], names: Sequence[str]) -> float:
    return 100.0 * sum(scores[name] for name in names) / len(names)


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

    Returns:
        The null odds of the last question to answer; if it is best to answer none, the number just
        below the lowest null odds.
    """
    names, odds = _rank(null_odds, scores)
    gains = [scores[name] - (not has_answer[name]) for name in names]
    # The last question of each run of equal odds: the possible cuts.
    ends = np.flatnonzero(np.append(odds[1:] != odds[:-1], True))
    totals = np.cumsum([sum(not has_answer[name] for name in names), *gains])[
        np.append(0, ends + 1)
    ]
    thresholds = np.concatenate([[math.nextafter(odds[0], -math.inf)], odds[ends]])
    return float(thresholds[np.argmax(totals)])


def with_margin(threshold: float, null_odds: Scores) -> float:
    """Returns an equivalent threshold, halfway to the next higher null odds if there are any.

    Other programs and machines round null odds differently, which must not matter at the threshold.
    """
    higher = min((odds for odds in null_odds.values() if odds > threshold), default=threshold)
    middle = threshold + (higher - threshold) / 2
    return middle if middle < higher else threshold


def _rank(null_odds: Scores, questions: Scores) -> tuple[list[str], np.ndarray]:
    """Returns the questions by ascending null odds, in their order if equal, and these odds."""
    names = [name for name in null_odds if name in questions]
    odds = np.array([null_odds[name] for name in names], np.float64)
    order = np.argsort(odds, kind="stable")
    return [names[index] for index in order], odds[order]
