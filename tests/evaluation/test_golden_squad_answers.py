"""Compares answers with those that the original wrote, from the features that it made."""

import json
import math

import numpy as np
import pytest

from albert_tf.data.fine_tuning.squad_questions import read_squad
from albert_tf.data.fine_tuning.windows import Windows
from albert_tf.evaluation.squad_answers import (
    evaluate_answers,
    find_null_threshold,
    rank_answers,
    score_spans,
)
from albert_tf.evaluation.squad_metrics import evaluate_v1, score_answers
from albert_tf.kinds.question_answering import gold_answers
from tests.helpers import shared_path

SETTINGS = ("n20_len30", "n3_len6")

# The original finds its threshold with <= and writes with <, so that the question whose null odds are the
# threshold loses its answer. Ours keeps it. One question in each setting, no other prediction differs.
ANSWERED_AT_THE_THRESHOLD = {"e688568f9e7fd2700aea3d75d": "Catholic"}


def read_windows(name):
    features = np.load(shared_path(f"golden/squad/{name}_eval_features.npz"))
    starts, ends = (
        np.zeros_like(features[key]) for key in ("tok_start_to_orig_index", "tok_end_to_orig_index")
    )
    for row, length in enumerate(features["doc_span_length"]):
        first = int(np.argmax(features["segment_ids"][row]))  # of the passage
        tokens = slice(first, first + length)
        starts[row, tokens] = features["tok_start_to_orig_index"][row, :length]
        ends[row, tokens] = features["tok_end_to_orig_index"][row, :length] + 1
    windows = Windows(
        example_indices=features["example_index"],
        token_starts=starts,
        token_ends=ends,
        token_is_max_context=features["token_is_max_context"] == 1,
    )
    return windows, features["unique_id"]


def answer(name, setting):
    """Returns the original's files, our answers and the right ones."""
    golden = json.loads(shared_path(f"golden/squad/{name}_predictions.json").read_text())[setting]
    windows, unique_ids = read_windows(name)
    examples = read_squad(str(shared_path(f"golden/squad/{name}_eval_input.json")))
    outputs = np.load(shared_path(f"golden/squad/{name}_scores_0.npz"))
    np.testing.assert_array_equal(outputs["unique_id"], unique_ids)
    n_best_size, max_length = golden["n_best_size"], golden["max_answer_length"]
    # The original takes padding for tokens.
    mask = np.ones_like(windows.token_starts)
    spans = score_spans(windows, unique_ids, outputs, mask, n_best_size, max_length)
    answers = rank_answers(
        [example.id for example in examples],
        [example.context for example in examples],
        spans,
        n_best_size,
        version_2_with_negative=name == "v2",
    )
    return golden, answers, gold_answers(examples)


def assert_same_nbest(answers, expected):
    assert answers.nbest.keys() == expected.keys()
    for name, entries in expected.items():
        ours = [entry.to_json_dict() for entry in answers.nbest[name]]
        for received, entry in zip(ours, entries, strict=True):
            assert received.pop("text") == entry.pop("text")
            assert received == pytest.approx(entry, rel=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["v1", "quirks"])
def test_simple_head(name, setting):
    golden, answers, golds = answer(name, setting)
    assert answers.predictions() == golden["predictions"]
    assert_same_nbest(answers, golden["nbest"])
    received = evaluate_v1(golds, answers.predictions())
    assert received == pytest.approx(golden["evaluation"], rel=1e-9)


@pytest.fixture(scope="module", params=SETTINGS)
def conditional(request):
    return answer("v2", request.param)


def test_conditional_head(conditional):
    golden, answers, _ = conditional
    assert answers.predictions() == golden["predictions_without_threshold"]
    assert answers.null_odds == pytest.approx(golden["null_odds"], rel=1e-6)
    assert_same_nbest(answers, golden["nbest"])


def test_evaluation_before_the_threshold(conditional):
    golden, answers, golds = conditional
    results = evaluate_answers(golds, answers, math.inf)
    expected = golden["evaluation_first_pass"]
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    for kind, values in golden["evaluation_by_kind"].items():
        received = {name: results[f"{kind}_{name}"] for name in values}
        assert received == pytest.approx(values, rel=1e-9)
    scores = score_answers(golds, answers.predictions(), version_2=True)
    assert scores.exact == golden["exact_raw"]
    assert scores.f1 == pytest.approx(golden["f1_raw"], rel=1e-9)


def test_threshold_and_what_is_written(conditional):
    golden, answers, golds = conditional
    threshold, final = find_null_threshold(golds, answers), golden["evaluation_final"]
    assert threshold == pytest.approx(final["null_score_diff_threshold"], rel=1e-6)
    predictions = answers.predictions(threshold)
    differing = predictions.items() - golden["predictions_final"].items()
    assert dict(differing) == ANSWERED_AT_THE_THRESHOLD
    results = evaluate_answers(golds, answers, threshold)
    best = golden["evaluation_first_pass"]["best_f1"]
    assert results["f1"] == pytest.approx(best, rel=1e-9)
    assert best > final["f1"]
