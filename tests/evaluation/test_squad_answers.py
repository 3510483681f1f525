import json

import numpy as np
import pytest

from albert_tf.data.fine_tuning.windows import Windows
from albert_tf.evaluation.squad_answers import (
    RankedAnswers,
    ScoredAnswer,
    ScoredSpans,
    answer_files,
    evaluate_answers,
    find_null_threshold,
    rank_answers,
    score_spans,
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
    names = ("examples", "windows", "starts", "ends", "start_scores", "end_scores")
    columns = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    columns |= {"start_offsets": columns["starts"], "end_offsets": columns["ends"] + 1}
    null_examples, null_scores = map(np.array, zip(*NULLS, strict=True))
    nulls = {"null_examples": null_examples, "null_scores": null_scores}
    return ScoredSpans(**columns, **nulls, null_is_span=null_is_span)


def rank(rows=ROWS, version_2_with_negative=True, null_is_span=False):
    spans = make_spans(rows, null_is_span)
    return rank_answers(IDS, CONTEXTS, spans, 20, version_2_with_negative)


def test_answers_are_different_parts_of_the_passage():
    answers = rank()
    assert [answer.text for answer in answers.nbest["first"]] == ["Ab", "Éf", "d"]
    assert [answer.text for answer in answers.nbest["third"]] == ["x"]
    # The better of the two equal texts is kept.
    assert answers.nbest["first"][1][2:] == (2.0, 2.0, 6)
    assert [answer.start for answer in answers.nbest["first"]] == [0, 6, 3]
    assert answers.nbest["third"][0].start == 1


def test_a_question_without_a_valid_span():
    for version_2, no_span in ((True, ("", 1.0, -1e6, -1e6)), (False, ("empty", 1.0, 0.0, 0.0))):
        answers = rank(version_2_with_negative=version_2)
        assert answers.nbest["second"] == [ScoredAnswer(*no_span)]
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


def test_of_equal_logits_the_first_come_first_and_no_span_is_found_outside_the_passage():
    windows = Windows(
        example_indices=np.array([0]),
        token_starts=np.array([[0, 0, 2, 4]]),
        token_ends=np.array([[0, 1, 3, 5]]),
        token_is_max_context=np.array([[False, True, True, True]]),
    )
    outputs = {"start_logits": np.zeros((1, 4)), "end_logits": np.array([[0.5, 0.5, 0.5, 0.5]])}
    given = windows, np.array([70]), outputs, np.ones((1, 4))
    spans = score_spans(*given, n_best_size=2, max_answer_length=9)
    assert (spans.starts.tolist(), spans.ends.tolist()) == ([1], [1])
    assert (spans.null_is_span, spans.null_scores.tolist()) == (True, [0.5])
    spans = score_spans(*given, n_best_size=1, max_answer_length=9)
    assert (len(spans.starts), len(spans.null_scores)) == (0, 1)
