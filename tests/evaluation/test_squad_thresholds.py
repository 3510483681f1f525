import numpy as np
import pytest

from albert_tf.evaluation.squad_thresholds import (
    apply_threshold,
    average_precision,
    official_best_threshold,
    search_threshold,
    with_margin,
)


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


def test_official_and_searched_threshold_agree_without_ties():
    for seed in range(30):
        scores, predictions, null_odds, has_answer = random_questions(seed)
        null_odds = {name: odd + index / 100 for index, (name, odd) in enumerate(null_odds.items())}
        best, official = official_best_threshold(scores, predictions, null_odds, has_answer)
        found = search_threshold(scores, null_odds, has_answer)
        achieved = 100 * total(scores, null_odds, has_answer, found) / len(scores)
        assert achieved == pytest.approx(best, abs=1e-9)
        assert found == official or found < min(null_odds.values())


def test_threshold_below_all_if_no_answer_is_best():
    odds = {"a": -3.0, "b": -2.0}
    found = search_threshold({"a": 0.0, "b": 0.0}, odds, {"a": False, "b": False})
    assert found < -3.0
    assert found == pytest.approx(-3.0)


def test_threshold_does_not_separate_ties():
    scores = {"right": 1.0, "wrong": 0.0, "wrong too": 0.0}
    has_answer = {"right": True, "wrong": False, "wrong too": False}
    odds = {"right": 1.0, "wrong": 1.0, "wrong too": 1.0}
    predictions = dict.fromkeys(scores, "x")
    assert official_best_threshold(scores, predictions, odds, has_answer) == (100.0, 1.0)
    assert search_threshold(scores, odds, has_answer) < 1.0


def test_margin_keeps_the_answered_questions():
    odds = {"a": -3.0, "b": 1.0, "c": 2.0, "d": 2.0}
    assert with_margin(1.0, odds) == 1.5
    assert with_margin(2.0, odds) == 2.0
    below = np.nextafter(-3.0, -np.inf)
    assert with_margin(below, odds) == below


def test_question_at_the_threshold_is_answered():
    scores = {"a": 0.25, "b": 0.5, "c": 0.75}
    has_answer = dict.fromkeys(scores, True)
    assert apply_threshold(scores, {"a": 0.0, "b": 1.0, "c": 2.0}, has_answer, 1.0) == {
        "a": 0.25,
        "b": 0.5,
        "c": 0.0,
    }


@pytest.mark.parametrize("seed", range(30))
def test_average_precision_is_the_area_under_the_steps(seed):
    exact, _, null_odds, has_answer = random_questions(seed)
    answerable = sum(has_answer.values())
    if not answerable:
        return
    perfect = dict.fromkeys(exact, 1.0)
    for scores in (exact, perfect):
        area, recall = 0.0, 0.0
        for threshold in sorted(set(null_odds.values())):
            answered = [name for name, odd in null_odds.items() if odd <= threshold]
            right = sum(scores[name] for name in answered if has_answer[name])
            area += right / len(answered) * (right / answerable - recall)
            recall = right / answerable
        received = average_precision(scores, null_odds, has_answer)
        assert received == pytest.approx(100 * area, abs=1e-9)


def test_ranking_all_answerable_questions_first_is_perfect():
    has_answer = {"a": True, "b": True, "c": False}
    null_odds = {"c": 3.0, "a": 1.0, "b": 2.0}
    perfect = dict.fromkeys(has_answer, 1.0)
    assert average_precision(perfect, null_odds, has_answer) == pytest.approx(100.0)
    assert average_precision({}, null_odds, has_answer) == 0.0
