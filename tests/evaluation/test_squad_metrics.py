import json
import re
import string

import numpy as np
import pytest

from albert_tf.evaluation.squad_metrics import (
    evaluate_v1,
    evaluate_v2,
    normalize_answer,
    score_answers_v1,
    score_answers_v2,
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


def test_versions_differ_in_empty_texts_and_missing_predictions():
    golds = {"article": ["the"], "word": ["the", "cat"], "missing": ["dog"]}
    predictions = {"article": "a", "word": "an", "of another file": "x"}
    v1, v2 = score_answers_v1(golds, predictions), score_answers_v2(golds, predictions)
    assert v1.exact == {"article": 1.0, "word": 1.0, "missing": 0.0}
    assert v1.f1 == {"article": 0.0, "word": 0.0, "missing": 0.0}
    assert v2.exact == v2.f1 == {"article": 1.0, "word": 0.0}


def test_an_empty_prediction_is_right_where_there_is_no_answer():
    golds = {"none": [], "one": ["cat"]}
    results = evaluate_v2(golds, {"none": "", "one": ""})
    assert results == {
        **{"exact": 50.0, "f1": 50.0, "total": 2},
        **{"HasAns_exact": 0.0, "HasAns_f1": 0.0, "HasAns_total": 1},
        **{"NoAns_exact": 100.0, "NoAns_f1": 100.0, "NoAns_total": 1},
    }


def test_most_similar_answer_counts():
    results = evaluate_v1({"q": ["x", "big red dog", "a dog"]}, {"q": "red dog"})
    assert results == pytest.approx({"exact_match": 0.0, "f1": 80.0})


@pytest.mark.parametrize("text", ["「東京」、。", "«Нет»…", "“x” – y’s", "١٢٫٥"])
def test_punctuation_of_other_languages_is_kept(text):
    assert normalize_answer(text) == text.lower()


def test_no_results_for_an_empty_set_of_questions():
    results = evaluate_v2({"q": []}, {"q": "x"}, {"q": 0.5})
    assert not any(name.startswith(("HasAns_", "pr_")) for name in results)
    assert results["best_exact"] == 100.0


def test_question_without_a_prediction_only_lowers_recall():
    golds = {"a": ["x"], "b": ["y"], "c": ["z"]}
    results = evaluate_v2(golds, {"a": "x", "c": "z"}, {"a": 0.1, "b": 0.2, "c": 0.3})
    assert results["exact"] == results["HasAns_exact"] == 100.0
    assert results["pr_exact_ap"] == pytest.approx(100 * (1 / 1 * 1 / 3 + 2 / 3 * 1 / 3))


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
