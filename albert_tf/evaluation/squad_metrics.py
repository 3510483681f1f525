"""The metrics of SQuAD 1.1 and 2.0, equal to those of the two official evaluation scripts.

The definitions are in Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250, section 6.1, and 2018,
https://arxiv.org/abs/1806.03822, section 5. Open details follow `evaluate-v1.1.py` and
`evaluate-v2.0.py`. The scripts differ in three points:

* If prediction or answer have no tokens, F1 is 0 in version 1.1. In 2.0 it is 1 if both have none.
* Answers without tokens are ignored in 2.0 if there are others.
* A question without a prediction counts as wrong in 1.1. In 2.0 it is excluded from all means.
"""

import collections
import dataclasses
import re
import string
from collections.abc import Callable, Mapping, Sequence

from albert_tf.evaluation.squad_thresholds import (
    apply_threshold,
    average_precision,
    official_best_threshold,
)

GoldAnswers = Mapping[str, Sequence[str]]
"""Question id -> texts of the right answers; empty if the passage holds no answer."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Only ASCII: the scripts keep the quotation marks, dashes and full stops of other languages.
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclasses.dataclass(frozen=True)
class AnswerScores:
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

    If a question has null odds but no prediction, the script stops with an error. Here the question has
    score 0 in the average precisions and is excluded otherwise.

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
        `best_f1`, `best_f1_thresh`) and, if any question has an answer, average precisions in percent
        (`pr_exact_ap`, `pr_f1_ap`; `pr_oracle_ap` with the right answers as predictions).
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
    if any(has_answer.values()):
        perfect = dict.fromkeys(has_answer, 1.0)
        for kind, values in (("exact", scores.exact), ("f1", scores.f1), ("oracle", perfect)):
            results[f"pr_{kind}_ap"] = average_precision(values, null_odds, has_answer)
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
