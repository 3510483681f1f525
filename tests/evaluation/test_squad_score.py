import json

import pytest

from albert_tf.errors import InputError
from albert_tf.evaluation.squad_score import score_predictions_file

GOLDS = {"a": ["the cat"], "b": ["dog", "big dog"], "c": []}
PREDICTIONS = {"a": "cat", "b": "red dog", "c": ""}
NULL_ODDS = {"a": -1.5, "b": 0.5, "c": 2}


def write(path, value):
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def paths(tmp_path):
    """Writes a data file of some questions, predictions and null odds, and returns their paths."""

    def make(questions="abc", predictions=PREDICTIONS, null_odds=NULL_ODDS):
        context = "the cat saw a big dog"
        entries = [
            {
                **{"id": name, "question": "Who?", "is_impossible": not GOLDS[name]},
                "answers": [
                    {"text": text, "answer_start": context.index(text)} for text in GOLDS[name]
                ],
            }
            for name in questions
        ]
        data = {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": entries}]}]}
        return (
            write(tmp_path / "data.json", data),
            write(tmp_path / "predictions.json", predictions),
            write(tmp_path / "null_odds.json", null_odds),
        )

    return make


def test_version_is_detected(paths):
    data, predictions, _ = paths()
    results = score_predictions_file(data, predictions)
    assert results["total"] == 3
    assert results["NoAns_exact"] == 100.0
    assert "best_f1" not in results
    data, predictions, _ = paths(questions="ab")
    results = score_predictions_file(data, predictions)
    assert results == pytest.approx({"exact_match": 50.0, "f1": (100 + 200 / 3) / 2})
    results = score_predictions_file(data, predictions, version_2_with_negative=True)
    assert results["HasAns_total"] == results["total"] == 2


def test_null_odds_give_thresholds_and_discard_answers(paths):
    results = score_predictions_file(*paths())
    assert results["best_exact_thresh"] == -1.5
    assert results["best_f1_thresh"] == 0.5
    assert results["pr_oracle_ap"] == pytest.approx(100.0)
    assert results["f1"] == pytest.approx((100 + 200 / 3 + 100) / 3)
    taken_back = score_predictions_file(*paths(), na_prob_thresh=0.0)
    assert taken_back["f1"] == pytest.approx((100 + 0 + 100) / 3)


def test_pictures_show_the_scored_predictions(paths, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "plots").mkdir()
    plots = str(tmp_path / "plots")
    assert score_predictions_file(*paths(), plots_dir=plots) == score_predictions_file(*paths())
    assert len(list((tmp_path / "plots").glob("*.png"))) == 5


def test_missing_ids_are_counted(paths, capsys):
    data, predictions, _ = paths(predictions={"a": "cat", "x": "1", "y": "2"})
    results = score_predictions_file(data, predictions)
    assert results["total"] == 1
    assert capsys.readouterr().err.splitlines() == [
        f"warning: {predictions}: 2 of 3 questions of {data} have no prediction (b, c)",
        f"warning: {predictions}: 2 predictions are for no question of {data} (x, y)",
    ]
    score_predictions_file(*paths())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{]", "line 1: not JSON: "),
        ("", "line 1: not JSON: "),
        (["cat"], r"holds \[.cat.\]; expected an object, question ID -> a text"),
        ({"a": "cat", "b": None}, "'b' has null; expected a text"),
        ({"a": ["cat"]}, r"'a' has \[.cat.\]; expected a text"),
        ({"a": {"text": "cat" * 99}}, r"'a' has \{.text.: .cat.*\.\.\.; expected a text"),
        ({}, "has a prediction for none of the 3 questions of .*; it has 0 other ids"),
        (
            {f"x{index}": "" for index in range(9)},
            r"none of the 3 questions of .*; it has 9 other ids \(x0, x1, x2, x3, x4, \.\.\.\)",
        ),
    ],
)
def test_malformed_predictions_are_refused(paths, content, message):
    data, predictions, _ = paths(predictions=content)
    with pytest.raises(InputError, match=message) as caught:
        score_predictions_file(data, predictions)
    assert str(caught.value).startswith(predictions)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "expected an object, question ID -> a finite number"),
        ({**NULL_ODDS, "a": "1"}, "'a' has .1.; expected a finite number"),
        ({**NULL_ODDS, "a": True}, "'a' has true; expected a finite number"),
        ({**NULL_ODDS, "a": float("nan")}, "'a' has NaN; expected a finite number"),
        ({**NULL_ODDS, "a": -float("inf")}, "'a' has -Infinity; expected a finite number"),
        ({**NULL_ODDS, "a": 10**400}, "'a' has 1000.*; expected a finite number"),
        ({"a": 1}, r"2 questions that have a prediction are missing \(b, c\)"),
    ],
)
def test_malformed_null_odds_are_refused(paths, content, message):
    data, predictions, null_odds = paths(null_odds=content)
    with pytest.raises(InputError, match=message) as caught:
        score_predictions_file(data, predictions, null_odds)
    assert str(caught.value).startswith(null_odds)
    assert "\n" not in str(caught.value)


def test_null_odds_need_version_2(paths):
    data, predictions, null_odds = paths(questions="ab")
    with pytest.raises(InputError, match=r"null odds are of SQuAD 2\.0"):
        score_predictions_file(data, predictions, null_odds)


def test_missing_file_is_named(paths, tmp_path):
    data, _, _ = paths()
    with pytest.raises(InputError, match=r"absent\.json"):
        score_predictions_file(data, str(tmp_path / "absent.json"))
