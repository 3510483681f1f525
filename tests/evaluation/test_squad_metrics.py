import json
import re
import string

import numpy as np
import pytest

from albert_tf.evaluation.squad_metrics import (
    apply_threshold,
    evaluate_v1,
    evaluate_v2,
    normalize_answer,
    official_best_threshold,
    score_answers_v1,
    score_answers_v2,
    search_threshold,
    with_margin,
)
from tests.helpers import shared_path

PAIRS = "golden/squad/evaluation_functions.json"
MANY = "golden/squad/evaluation_many.json"


def test_golden_pairs():
    for pair in json.loads(shared_path(PAIRS).read_text())["pairs"]:
        prediction, gold = pair["prediction"], pair["gold"]
        assert normalize_answer(prediction) == pair["normalized_prediction"]
        assert normalize_answer(gold) == pair["normalized_gold"]
        for version, score in (("v1", score_answers_v1), ("v2", score_answers_v2)):
            scores = score({"q": [gold]}, {"q": prediction})
            assert scores.exact == {"q": pair[f"{version}_em"]}, pair
            assert scores.f1 == {"q": pair[f"{version}_f1"]}, pair


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
    results = evaluate_v2(golds, reference["predictions"], reference["null_odds"], float(threshold))
    expected = reference["na_prob_thresh_to_result"][threshold]
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-9)


def test_golden_predictions_of_v1(many):
    reference, golds = many
    answerable = {name: texts for name, texts in golds.items() if texts}
    results = evaluate_v1(answerable, reference["predictions"])
    assert results == pytest.approx(reference["evaluate_v1_on_answerable_questions"], rel=1e-9)


@pytest.mark.parametrize("text", ["「東京」、。", "«Нет»…", "“x” – y’s", "١٢٫٥"])
def test_punctuation_of_other_languages_is_kept(text):
    assert normalize_answer(text) == text.lower()


WORDS = [
    "a",
    "the",
    "The",
    "cat",
    "dog.",
    "New York",
    "3,000",
    "",
    "!",
    "“so”",
    "Zürich",
    "one two",
]


def random_files(seed, with_missing):
    """Right answers, predictions and null odds of up to 40 questions, with many equal odds."""
    rng = np.random.default_rng(seed)

    def text():
        return " ".join(rng.choice(WORDS, rng.integers(0, 5)))

    names = [f"q{index}" for index in range(rng.integers(3, 40))]
    golds = {
        name: [text() for _ in range(rng.integers(0, 4) * rng.integers(0, 2))] for name in names
    }
    predictions = {
        name: golds[name][0] if golds[name] and rng.random() < 0.4 else text()
        for name in names
        if not with_missing or rng.random() < 0.8
    } or {names[0]: "x"}
    null_odds = {name: float(rng.integers(-3, 9)) / 4 for name in rng.permutation(names)}
    return golds, predictions, null_odds


def plain(text):
    """Normalises by definition, one character and one word after the other."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    words = re.split(r"(\W+)", kept)
    return "".join(" " if word in ("a", "an", "the") else word for word in words).split()


def plain_f1(prediction, gold, both_empty):
    left = list(gold)
    same = sum(word in left and not left.remove(word) for word in prediction)
    if not prediction and not gold:
        return both_empty
    return 2 * same / (len(prediction) + len(gold))


def plain_scores(golds, predictions, version):
    scores = {}
    for name, texts in golds.items():
        rights = [plain(text) for text in texts]
        if version == 2:
            rights = [right for right in rights if right] or [[]]
        if name in predictions:
            words = plain(predictions[name])
            scores[name] = (
                float(any(" ".join(words) == " ".join(right) for right in rights)),
                max((plain_f1(words, right, version - 1) for right in rights), default=0),
            )
        elif version == 1:
            scores[name] = (0.0, 0.0)
    return scores


def mean(values):
    return pytest.approx(100 * sum(values) / len(values), abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_metrics_agree_with_their_definitions(seed):
    golds, predictions, null_odds = random_files(seed, with_missing=seed % 2)
    v1 = plain_scores(golds, predictions, version=1)
    assert evaluate_v1(golds, predictions) == {
        "exact_match": mean([exact for exact, _ in v1.values()]),
        "f1": mean([f1 for _, f1 in v1.values()]),
    }
    results = evaluate_v2(golds, predictions, null_odds, na_prob_thresh=0.5)
    v2 = plain_scores(golds, predictions, version=2)
    final = {
        name: (not golds[name],) * 2 if null_odds[name] > 0.5 else pair for name, pair in v2.items()
    }
    for prefix, of_kind in (
        ("", list(final)),
        ("HasAns_", [name for name in final if golds[name]]),
        ("NoAns_", [name for name in final if not golds[name]]),
    ):
        assert (prefix + "total" in results) == bool(of_kind)
        if of_kind:
            assert results[prefix + "total"] == len(of_kind)
            for index, kind in enumerate(("exact", "f1")):
                assert results[prefix + kind] == mean([final[name][index] for name in of_kind])


# Thresholds


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
    return sum(apply_threshold(scores, null_odds, has_answer, threshold).values())


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


def official_loop(scores, predictions, null_odds, has_answer):
    """The official search, one question after the other."""
    current = best = sum(not has for has in has_answer.values())
    threshold = 0.0
    for name in sorted(null_odds, key=null_odds.get):
        if has_answer[name]:
            current += scores[name]
        elif predictions[name]:
            current -= 1
        if current > best:
            best, threshold = current, null_odds[name]
    return 100.0 * best / len(scores), threshold


@pytest.mark.parametrize("seed", range(30))
def test_official_threshold_equals_the_loop_exactly(seed):
    questions = random_questions(seed)
    assert official_best_threshold(*questions) == official_loop(*questions)


def test_margin_keeps_the_answered_questions():
    odds = {"a": -3.0, "b": 1.0, "c": 2.0, "d": 2.0}
    assert with_margin(1.0, odds) == 1.5
    assert with_margin(2.0, odds) == 2.0
    below = np.nextafter(-3.0, -np.inf)
    assert with_margin(below, odds) == below
