"""Reads answers from a model's outputs for windows of passages, evaluates them and makes their files.

The text of an answer is cut from the passage by character offsets, so it has the original spelling. Ties
between spans are broken by a fixed order (`rank_answers`), so answers depend on the scores alone.

A question is unanswered if its null odds are above the threshold, both in the search for the threshold
and in the files.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.fine_tuning.squad_windows import NO_SPAN_LOG_PROB, NO_WINDOW_SCORE
from albert_tf.data.fine_tuning.windows import Windows
from albert_tf.evaluation import squad_metrics
from albert_tf.evaluation.answer_spans import are_valid, find_candidates


class ScoredSpans(NamedTuple):
    """K spans that may be answers, and the null scores of W windows."""

    examples: np.ndarray  # int (K,), index of the example
    windows: np.ndarray  # int (K,), unique number of the window
    starts: np.ndarray  # int (K,), position of the first token in the window
    ends: np.ndarray  # int (K,), position of the last token
    start_offsets: np.ndarray  # int (K,), first character in the passage
    end_offsets: np.ndarray  # int (K,), the character after the span
    start_scores: np.ndarray  # float64 (K,), logit or log-probability of the start
    end_scores: np.ndarray  # float64 (K,), logit or log-probability of the end
    null_examples: np.ndarray  # int (W,), index of each window's example
    null_scores: np.ndarray  # float64 (W,), confidence that the window holds no answer
    null_is_span: bool  # as in `Candidates`


def score_spans(
    windows: Windows,
    numbers: np.ndarray,
    outputs: Mapping[str, np.ndarray],
    input_mask: np.ndarray,
    n_best_size: int,
    max_answer_length: int,
) -> ScoredSpans:
    """Returns the valid spans in what a span labeler returns for W windows; see `find_candidates`.

    Of equally good answers, that of the window with the lower of the unique `numbers`, int (W,), is
    chosen, whatever the order of the windows.
    """
    with tf.device("CPU"):
        candidates = find_candidates(outputs, input_mask, n_best_size)
        is_valid = are_valid(windows, candidates, max_answer_length).numpy()
    rows = np.nonzero(is_valid)[0]
    starts, ends, start_scores, end_scores = (
        np.broadcast_to(values, is_valid.shape)[is_valid]
        for values in (
            candidates.starts[..., None],
            candidates.ends,
            candidates.start_scores[..., None],
            candidates.end_scores,
        )
    )
    return ScoredSpans(
        examples=windows.example_indices[rows],
        windows=numbers[rows],
        starts=starts,
        ends=ends,
        start_offsets=windows.token_starts[rows, starts],
        end_offsets=windows.token_ends[rows, ends],
        start_scores=start_scores.astype(np.float64),
        end_scores=end_scores.astype(np.float64),
        null_examples=windows.example_indices,
        null_scores=candidates.null_scores.numpy(),
        null_is_span=candidates.null_is_span,
    )


def concatenate_spans(parts: Sequence[ScoredSpans]) -> ScoredSpans:
    """Joins the spans of one or more batches of windows."""
    *columns, (null_is_span, *_) = zip(*parts, strict=True)
    return ScoredSpans._make([*map(np.concatenate, columns), null_is_span])


class ScoredAnswer(NamedTuple):
    """One of the best answers to a question; an entry of `nbest_predictions.json`."""

    text: str  # part of the passage, without surrounding white space
    probability: float  # among the answers of the list
    start_log_prob: float  # logit or log-probability of the start
    end_log_prob: float  # the same of the end
    start: int = 0  # its first character in the passage; 0 if there is no answer; not in the file

    def to_json_dict(self) -> dict[str, Any]:
        """Returns the entry of the file."""
        return {name: value for name, value in self._asdict().items() if name != "start"}


# The original's answer if no span is valid. In SQuAD 1.1 an empty answer is never right.
_NO_SPAN_V1 = ScoredAnswer("empty", 1.0, 0.0, 0.0)
_NO_SPAN_V2 = ScoredAnswer("", 1.0, NO_SPAN_LOG_PROB, NO_SPAN_LOG_PROB)


@dataclasses.dataclass(frozen=True)
class RankedAnswers:
    """The answers to a list of questions."""

    # Question id -> one or more answers with different texts, the best first.
    nbest: dict[str, list[ScoredAnswer]]
    # Question id -> confidence that the passage holds no answer, on the head's own scale.
    null_odds: dict[str, float]

    def predictions(self, null_threshold: float | None = None) -> dict[str, str]:
        """Returns the best answer by question id; empty if the null odds are above the threshold."""
        limit = math.inf if null_threshold is None else null_threshold
        return {
            name: "" if self.null_odds[name] > limit else answers[0].text
            for name, answers in self.nbest.items()
        }


def rank_answers(
    question_ids: Sequence[str],
    contexts: Sequence[str],
    spans: ScoredSpans,
    n_best_size: int,
    version_2_with_negative: bool,
) -> RankedAnswers:
    """Finds the `n_best_size` best answers to each question, one of each passage in `contexts`.

    `version_2_with_negative` decides the answer if no span is valid.
    """
    # By question and descending score. As in the original's loops, ties are broken by the earlier
    # window, the better start, the earlier start and the earlier end.
    totals = spans.start_scores + spans.end_scores
    order = np.lexsort(
        (spans.ends, spans.starts, -spans.start_scores, spans.windows, -totals, spans.examples)
    )
    bounds = np.searchsorted(spans.examples[order], np.arange(len(question_ids) + 1)).tolist()
    no_span = _NO_SPAN_V2 if version_2_with_negative else _NO_SPAN_V1
    nbest = {}
    for index, (name, context) in enumerate(zip(question_ids, contexts, strict=True)):
        ranked = order[bounds[index] : bounds[index + 1]]
        nbest[name] = _best_answers(context, spans, ranked, count=n_best_size) or [no_span]
    return RankedAnswers(nbest, _null_odds(nbest, spans))


def _best_answers(
    context: str, spans: ScoredSpans, ranked: np.ndarray, count: int
) -> list[ScoredAnswer]:
    """Returns a question's best answers with different texts.

    Their probabilities are the softmax of the sums of start and end scores, the first being the highest.
    """
    best: dict[str, tuple[float, float, int]] = {}
    columns = (spans.start_offsets, spans.end_offsets, spans.start_scores, spans.end_scores)
    for start, end, *scores in zip(*(column[ranked].tolist() for column in columns), strict=True):
        text = context[start:end].strip()
        if text not in best:
            best[text] = (*scores, context.find(text, start))
            if len(best) == count:
                break
    totals = [start + end for start, end, _ in best.values()]
    weights = [math.exp(total - totals[0]) for total in totals]
    whole = sum(weights)
    return [
        ScoredAnswer(text, weight / whole, *others)
        for (text, others), weight in zip(best.items(), weights, strict=True)
    ]


def _null_odds(nbest: dict[str, list[ScoredAnswer]], spans: ScoredSpans) -> dict[str, float]:
    """Returns the lowest null score per question; for the simple head minus the best answer's score."""
    lowest = np.full(len(nbest), np.inf)
    np.minimum.at(lowest, spans.null_examples, spans.null_scores)
    lowest[np.isinf(lowest)] = NO_WINDOW_SCORE
    odds = dict(zip(nbest, lowest.tolist(), strict=True))
    if spans.null_is_span:
        for name, (best, *_) in nbest.items():
            odds[name] -= best.start_log_prob + best.end_log_prob
    return odds


def find_null_threshold(
    golds: squad_metrics.GoldAnswers, answers: RankedAnswers, rules: str = "squad"
) -> float:
    """Returns the threshold on the null odds of n > 0 questions that gives the highest F1."""
    scores = squad_metrics.score_answers(golds, answers.predictions(), version_2=True, rules=rules)
    return squad_metrics.search_threshold(scores.f1, answers.null_odds, golds)


def evaluate_answers(
    golds: squad_metrics.GoldAnswers,
    answers: RankedAnswers,
    null_threshold: float | None,
    rules: str = "squad",
) -> dict[str, float]:
    """Returns the metrics of the predictions that `answer_files` returns, for n > 0 questions.

    They are those of `evaluate_v1` if there is no threshold on the null odds, otherwise those of
    `evaluate_v2` and `find_best_scores`. The best thresholds are those of the answers before the
    threshold is applied. `rules` is one of `ANSWER_RULES`.
    """
    predictions = answers.predictions()
    if null_threshold is None:
        return squad_metrics.evaluate_v1(golds, predictions, rules)
    return {
        **squad_metrics.evaluate_v2(golds, answers.predictions(null_threshold), rules),
        **squad_metrics.find_best_scores(golds, predictions, answers.null_odds, rules),
        "null_score_diff_threshold": null_threshold,
    }


def answer_files(answers: RankedAnswers, null_threshold: float | None) -> dict[str, str]:
    """Returns `predictions.json`, `nbest_predictions.json` and, for SQuAD 2.0, `null_odds.json`.

    Predictions with null odds above the threshold, which is None for SQuAD 1.1, are empty.
    """
    contents: dict[str, Any] = {
        "predictions": answers.predictions(null_threshold),
        "nbest_predictions": {
            name: [answer.to_json_dict() for answer in best] for name, best in answers.nbest.items()
        },
    }
    if null_threshold is not None:
        contents["null_odds"] = answers.null_odds
    return {f"{name}.json": files.to_json(content) for name, content in contents.items()}
