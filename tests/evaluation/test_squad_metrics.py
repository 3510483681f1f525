import json
import typing

import numpy as np
import pytest

from albert_tf.evaluation.answer_rules import ANSWER_RULES, normalize_answer
from albert_tf.evaluation.squad_answers import RankedAnswers, ScoredAnswer, evaluate_answers
from albert_tf.evaluation.squad_metrics import (
    add_margin,
    evaluate_v1,
    score_answers,
    search_threshold,
)
from albert_tf.options.kinds import AnswerRules
from tests.helpers import shared_path

PAIRS = "golden/squad/evaluation_functions.json"
MANY = "golden/squad/evaluation_many.json"


def test_golden_pairs():
    for pair in json.loads(shared_path(PAIRS).read_text())["pairs"]:
        prediction, gold = pair["prediction"], pair["gold"]
        assert normalize_answer(prediction) == pair["normalized_prediction"]
        assert normalize_answer(gold) == pair["normalized_gold"]
        for version in ("v1", "v2"):
            scores = score_answers({"q": [gold]}, {"q": prediction}, version_2=version == "v2")
            assert scores.exact == {"q": pair[f"{version}_em"]}, pair
            assert scores.f1 == {"q": pair[f"{version}_f1"]}, pair


@pytest.mark.parametrize(
    ("rules", "text", "tokens"),
    [
        ("squad", "The “Ada”, the 1st.", "“ada” 1st"),
        ("en", "The “Ada”, the 1st.", "ada 1st"),
        ("de", "Das »Haus« der Frau, einem", "haus frau"),
        ("es", "¿El río y las casas?", "río y casas"),
        ("hi", "वह घर।", "वह घर"),
        ("vi", "những cái nhà của tôi", "nhà tôi"),
        ("ar", "في البيت الكبير", "في بيت كبير"),
        ("zh", "《北京》，Peking 2022年", "北 京 peking 2022 年"),
        ("zh", "東京タワー", "東 京 タワー"),  # words of kana stay whole in MLQA
        ("ja", "「東京タワー」の 333 m、人々", "東 京 タ ワ ー の 333 m 人 々"),
    ],
)
def test_tokens_of_answers_by_rules(rules, text, tokens):
    assert normalize_answer(text, rules) == tokens


def test_answers_are_scored_by_characters():
    golds = {"1": ["北京大学"], "2": ["東京", "東京都"], "3": ["1943年"]}
    predictions = {"1": "北京，", "2": "東京都。", "3": "在1943年底"}
    # By words none of them is right, but for the second, whose full stop no rule of English knows.
    assert evaluate_v1(golds, predictions) == {"exact_match": 0, "f1": 0}
    # 1: 2 of 2 predicted and 2 of 4 right ones: 2/3. 2: all. 3: 1943 and 年, 2 of 4 and 2 of 2: 2/3.
    expected = {"exact_match": 100 / 3, "f1": 100 * (2 / 3 + 1 + 2 / 3) / 3}
    for rules in ("zh", "ja"):
        assert evaluate_v1(golds, predictions, rules) == pytest.approx(expected, rel=1e-12)
    scores = score_answers(golds | {"4": []}, predictions | {"4": "。"}, version_2=True, rules="zh")
    assert scores.f1 == pytest.approx({"1": 2 / 3, "2": 1, "3": 2 / 3, "4": 1})


def test_rules_are_those_of_the_flag():
    assert {*typing.get_args(AnswerRules)} == {*ANSWER_RULES}


@pytest.fixture(scope="module")
def many():
    """The official results of made-up predictions, and the questions' right answers."""
    reference = json.loads(shared_path(MANY).read_text())
    data = json.loads(shared_path("data/squad/dev-v2.0-half.json").read_text())["data"]
    golds = {
        question["id"]: [answer["text"] for answer in question["answers"]]
        for index in reference["article_index"]
        for paragraph in data[index]["paragraphs"]
        for question in paragraph["qas"]
    }
    assert len(golds) == reference["n_questions"]
    return reference, golds


@pytest.mark.parametrize("threshold", ["1.0", "0.0", "-0.5"])
def test_golden_predictions_of_v2(many, threshold):
    reference, golds = many
    nbest = {name: [ScoredAnswer(text, 1, 0, 0)] for name, text in reference["predictions"].items()}
    answers = RankedAnswers(nbest, reference["null_odds"])
    results = evaluate_answers(golds, answers, float(threshold))
    expected = reference["na_prob_thresh_to_result"][threshold]
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-9)


def test_golden_predictions_of_v1(many):
    reference, golds = many
    answerable = {name: texts for name, texts in golds.items() if texts}
    results = evaluate_v1(answerable, reference["predictions"])
    assert results == pytest.approx(reference["evaluate_v1_on_answerable_questions"], rel=1e-9)


def random_questions(seed):
    """Scores, predictions, null odds, some of them equal, and which questions have an answer."""
    rng = np.random.default_rng(seed)
    names = [f"q{index}" for index in rng.permutation(int(rng.integers(2, 30)))]
    has_answer = {name: bool(rng.integers(0, 2)) for name in names}
    predictions = {name: "x" if rng.random() < 0.8 else "" for name in names}
    scores = {
        name: float(rng.choice([0, 1 / 3, 0.5, 1])) if has_answer[name] else float(not text)
        for name, text in predictions.items()
    }
    null_odds = {name: float(rng.integers(-5, 6)) for name in rng.permutation(names)}
    return scores, predictions, null_odds, has_answer


def total(scores, null_odds, has_answer, threshold):
    """The sum of the scores if answers with null odds above the threshold are discarded."""
    kept = {name: not has_answer[name] for name, odds in null_odds.items() if odds > threshold}
    return sum((scores | kept).values())


@pytest.mark.parametrize("seed", range(30))
def test_searched_threshold_is_the_lowest_best_one(seed):
    scores, _, null_odds, has_answer = random_questions(seed)
    found = search_threshold(scores, null_odds, has_answer)
    levels = [min(null_odds.values()) - 1, *sorted(set(null_odds.values()))]
    totals = [total(scores, null_odds, has_answer, level) for level in levels]
    best = total(scores, null_odds, has_answer, found)
    assert best == pytest.approx(max(totals), abs=1e-9)
    below = [value for value, level in zip(totals, levels, strict=True) if level < found]
    if found in levels:
        assert max(below) < best - 1e-9
    else:
        assert found < levels[1]


def test_margin_keeps_the_answered_questions():
    odds = {"a": -3.0, "b": 1.0, "c": 2.0, "d": 2.0}
    assert add_margin(1.0, odds) == 1.5
    assert add_margin(2.0, odds) == 2.0
    below = np.nextafter(-3.0, -np.inf)
    assert add_margin(below, odds) == below
