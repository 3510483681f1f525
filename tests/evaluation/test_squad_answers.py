import itertools
import json
import math

import numpy as np
import pytest

from albert_tf.evaluation.squad_answers import (
    PassageWindows,
    RankedAnswers,
    ScoredAnswer,
    ScoredSpans,
    answer_files,
    concatenate_spans,
    conditional_spans,
    evaluate_answers,
    find_null_threshold,
    rank_answers,
    simple_spans,
)
from albert_tf.evaluation.squad_metrics import evaluate_v2

# (example, window, first token, last token, start score, end score); tokens are single characters.
ROWS = [
    (0, 10, 3, 3, 1.0, 1.0),
    (0, 10, 0, 1, 2.0, 3.0),
    (0, 11, 4, 5, 1.5, 1.5),
    (0, 11, 6, 7, 2.0, 2.0),
    (2, 12, 1, 2, -1.0, -2.0),
]
CONTEXTS = ["AbcdÉfÉf", "nothing here", " x y"]
IDS = ["first", "second", "third"]
# The windows of two examples; the second has none.
NULLS = [(0, 0.5), (0, -0.5), (2, 4.0)]


def make_spans(rows, null_is_span=False):
    examples, windows, starts, ends, start_scores, end_scores = map(
        np.array, zip(*rows, strict=True)
    )
    null_examples, null_scores = map(np.array, zip(*NULLS, strict=True))
    return ScoredSpans(
        **{"examples": examples, "windows": windows, "starts": starts, "ends": ends},
        **{"start_offsets": starts, "end_offsets": ends + 1},
        **{"start_scores": start_scores, "end_scores": end_scores},
        **{"null_examples": null_examples, "null_scores": null_scores},
        null_is_span=null_is_span,
    )


def rank(rows=ROWS, n_best_size=20, version_2_with_negative=True, null_is_span=False):
    spans = make_spans(rows, null_is_span)
    return rank_answers(IDS, CONTEXTS, spans, n_best_size, version_2_with_negative)


def test_answers_are_different_parts_of_the_passage():
    answers = rank()
    assert [answer.text for answer in answers.nbest["first"]] == ["Ab", "Éf", "d"]
    assert [answer.text for answer in answers.nbest["third"]] == ["x"]
    # The better of the two equal texts is kept.
    assert answers.nbest["first"][1][2:] == (2.0, 2.0, 6)
    assert [answer.start for answer in answers.nbest["first"]] == [0, 6, 3]
    assert answers.nbest["third"][0].start == 1


def test_probabilities_are_a_softmax_of_the_list():
    nbest = rank().nbest["first"]
    weights = np.exp([5.0, 4.0, 2.0])
    np.testing.assert_allclose([answer.probability for answer in nbest], weights / weights.sum())
    assert [answer.text for answer in rank(n_best_size=2).nbest["first"]] == ["Ab", "Éf"]
    assert rank(n_best_size=1).nbest["first"][0].probability == 1.0


def test_a_question_without_a_valid_span():
    no_spans = {
        True: ScoredAnswer("", 1.0, -1e6, -1e6),
        False: ScoredAnswer("empty", 1.0, 0.0, 0.0),
    }
    for version_2, no_span in no_spans.items():
        answers = rank(version_2_with_negative=version_2)
        assert answers.nbest["second"] == [no_span]
        assert list(answers.nbest) == list(answers.null_odds) == IDS


def test_null_odds_are_the_lowest_null_score_less_the_best_answers():
    assert rank().null_odds == {"first": -0.5, "second": 1e6, "third": 4.0}
    odds = rank(null_is_span=True).null_odds
    assert odds == {"first": -0.5 - 5.0, "second": 1e6 + 2e6, "third": 4.0 + 3.0}


def test_order_of_windows_and_spans_does_not_matter():
    tied = [
        *((0, 11, 6, 6, 1.0, 1.0), (0, 10, 3, 3, 1.0, 1.0), (0, 10, 2, 2, 1.5, 0.5)),
        *((0, 10, 1, 1, 1.0, 1.0), (0, 10, 1, 2, 1.0, 1.0), (2, 12, 1, 2, 0.0, 0.0)),
    ]
    expected = rank(tied)
    # The earlier window, the better start, the earlier start, the earlier end.
    assert [answer.text for answer in expected.nbest["first"]] == ["c", "b", "bc", "d", "É"]
    rng = np.random.default_rng(3)
    for _ in range(10):
        assert rank([tied[index] for index in rng.permutation(len(tied))]) == expected


def test_the_question_at_the_threshold_is_answered():
    answers = rank()
    assert answers.predictions() == {"first": "Ab", "second": "", "third": "x"}
    assert answers.predictions(4.0) == {"first": "Ab", "second": "", "third": "x"}
    assert answers.predictions(3.9) == {"first": "Ab", "second": "", "third": ""}


def random_answers(seed):
    rng = np.random.default_rng(seed)
    names = [f"q{index}" for index in range(31)]
    texts = ["red", "red dog", "blue", "the", ""]
    golds = {name: [str(rng.choice(texts[:3]))] if rng.random() < 0.6 else [] for name in names}
    nbest = {name: [ScoredAnswer(str(rng.choice(texts)), 1.0, 0.0, 0.0)] for name in names}
    return golds, RankedAnswers(nbest, {name: float(rng.integers(-4, 5)) for name in names})


@pytest.mark.parametrize("seed", range(10))
def test_reported_scores_match_the_files(seed):
    golds, answers = random_answers(seed)
    threshold = find_null_threshold(golds, answers)
    files = answer_files(answers, threshold)
    predictions = json.loads(files["predictions.json"])
    assert json.loads(files["null_odds.json"]) == answers.null_odds
    reported = evaluate_answers(golds, answers, threshold)
    assert evaluate_v2(golds, predictions).items() <= reported.items()
    # No other threshold gives a better file.
    for other in range(-6, 6):
        assert evaluate_answers(golds, answers, other)["f1"] <= reported["f1"] + 1e-9


def test_best_threshold_is_of_the_unfiltered_answers():
    golds, answers = random_answers(0)
    before = evaluate_answers(golds, answers, math.inf)
    reported = evaluate_answers(golds, answers, -100.0)
    for name in ("best_exact", "best_f1_thresh"):
        assert reported[name] == before[name]
    assert reported["null_score_diff_threshold"] == -100.0
    assert reported["HasAns_exact"] == 0.0


def test_files_of_version_1():
    answers = rank(version_2_with_negative=False)
    files = answer_files(answers, None)
    assert sorted(files) == ["nbest_predictions.json", "predictions.json"]
    predictions = json.loads(files["predictions.json"])
    assert predictions == {"first": "Ab", "second": "empty", "third": "x"}
    nbest = json.loads(files["nbest_predictions.json"])
    best = nbest["first"][1]
    assert list(best) == ["text", "probability", "start_log_prob", "end_log_prob"]
    assert best["text"] == "Éf"
    assert evaluate_answers({"first": ["ab"], "third": ["y"]}, answers, None) == {
        "exact_match": 50.0,
        "f1": 50.0,
    }


# Spans of each head

WINDOWS, LENGTH, QUERY = 5, 13, 3


@pytest.fixture
def windows():
    """Windows of three examples; [CLS] and a question of two tokens, then tokens of three characters."""
    rng = np.random.default_rng(1)
    starts = np.zeros((WINDOWS, LENGTH), np.int32)
    starts[:, QUERY:] = 3 * np.arange(LENGTH - QUERY)
    ends = np.zeros_like(starts)
    ends[:, QUERY:] = starts[:, QUERY:] + 2
    ends[-1, -4:] = starts[-1, -4:] = 0  # padding
    return PassageWindows(
        unique_ids=np.array([70, 71, 72, 73, 74]),
        example_indices=np.array([0, 0, 1, 2, 2], np.int32),
        token_starts=starts,
        token_ends=ends,
        token_is_max_context=rng.integers(0, 2, starts.shape, np.int32),
    )


def simple_head(rng, n_best_size, max_answer_length):
    """Outputs, scored pairs of window, start and end, null scores, and what finds the spans."""
    # Few different values, so that there are ties.
    starts, ends = rng.integers(-3, 4, (2, WINDOWS, LENGTH)).astype(np.float32)
    pairs = []
    for window in range(WINDOWS):
        ranked = [
            sorted(range(LENGTH), key=lambda position, row=row: (-row[position], position))
            for row in (starts[window], ends[window])
        ]
        for start, end in itertools.product(*(positions[:n_best_size] for positions in ranked)):
            pairs.append((window, start, end, starts[window, start], ends[window, end]))
    outputs = {"start_logits": starts, "end_logits": ends}
    return outputs, pairs, starts[:, 0] + ends[:, 0], simple_spans, (n_best_size, max_answer_length)


def conditional_head(rng, n_best_size, max_answer_length, beam=(4, 3)):
    starts = np.array([rng.permutation(LENGTH)[: beam[0]] for _ in range(WINDOWS)])
    ends = [rng.permutation(LENGTH)[: beam[1]] for _ in range(WINDOWS * beam[0])]
    ends = np.array(ends).reshape(WINDOWS, -1)
    outputs = {
        **{"start_top_index": starts, "end_top_index": ends},
        "start_top_log_probs": -rng.random(starts.shape, np.float32),
        "end_top_log_probs": -rng.random(ends.shape, np.float32),
        "cls_logits": rng.normal(size=WINDOWS).astype(np.float32),
    }
    pairs = [
        (
            *(window, starts[window, i], ends[window, beam[1] * i + j]),
            outputs["start_top_log_probs"][window, i],
            outputs["end_top_log_probs"][window, beam[1] * i + j],
        )
        for window, i, j in itertools.product(range(WINDOWS), *map(range, beam))
    ]
    return outputs, pairs, outputs["cls_logits"], conditional_spans, (max_answer_length,)


def as_set(spans):
    return {
        (*map(int, key), start, end)
        for *key, start, end in zip(
            *(spans.examples, spans.windows, spans.starts, spans.ends),
            *(spans.start_offsets, spans.end_offsets, spans.start_scores, spans.end_scores),
            strict=True,
        )
    }


def expected_spans(windows, pairs, max_answer_length):
    """Judges each (window, start, end, start score, end score) alone."""
    kept = set()
    for window, start, end, *scores in pairs:
        begins, stops = windows.token_starts[window], windows.token_ends[window]
        inside = stops[start] > 0 and stops[end] > 0
        best = windows.token_is_max_context[window, start]
        if inside and best and start <= end < start + max_answer_length:
            key = (windows.example_indices[window], windows.unique_ids[window], start, end)
            kept.add((*map(int, key), int(begins[start]), int(stops[end]), *map(float, scores)))
    return kept


def select(windows, which):
    return PassageWindows(*(values[which] for values in vars(windows).values()))


@pytest.mark.parametrize("head", [simple_head, conditional_head])
@pytest.mark.parametrize(("n_best_size", "max_answer_length"), [(13, 13), (4, 5), (5, 1), (50, 3)])
def test_a_head_pairs_starts_and_ends(windows, head, n_best_size, max_answer_length):
    rng = np.random.default_rng(0)
    outputs, pairs, null_scores, find, limits = head(rng, n_best_size, max_answer_length)
    spans = find(windows, outputs, *limits)
    expected = expected_spans(windows, pairs, max_answer_length)
    assert expected
    assert as_set(spans) == expected
    assert len(spans.starts) == len(expected)
    np.testing.assert_array_equal(spans.null_scores, null_scores)
    np.testing.assert_array_equal(spans.null_examples, windows.example_indices)
    assert spans.null_is_span == (head is simple_head)
    parts = [
        find(select(windows, part), {name: x[part] for name, x in outputs.items()}, *limits)
        for part in (slice(0, 2), slice(2, 5))
    ]
    for joined, whole in zip(concatenate_spans(parts), spans, strict=True):
        np.testing.assert_array_equal(joined, whole)
    hidden = {**vars(windows), "token_is_max_context": np.zeros((WINDOWS, LENGTH))}
    none = find(PassageWindows(**hidden), outputs, *limits)
    assert (len(none.starts), len(none.null_scores)) == (0, WINDOWS)
