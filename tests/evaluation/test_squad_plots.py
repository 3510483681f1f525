import sys

import pytest

from albert_tf.evaluation.squad_plots import draw_squad_plots

GOLDS = {"a": ["cat"], "b": ["dog"], "c": [], "d": []}
PREDICTIONS = {"a": "cat", "b": "a red dog", "c": "", "d": "x"}
NULL_ODDS = {"a": -1.5, "b": 0.5, "c": 2.0, "d": -7.0, "of another file": 1.0}
HISTOGRAMS = ["na_prob_hist_hasAns.png", "na_prob_hist_noAns.png"]
CURVES = ["pr_exact.png", "pr_f1.png", "pr_oracle.png"]


def draw(folder, questions):
    golds = {name: GOLDS[name] for name in questions}
    paths = draw_squad_plots(str(folder), golds, PREDICTIONS, NULL_ODDS)
    names = sorted(path.name for path in folder.iterdir())
    assert sorted(paths) == [str(folder / name) for name in names]
    return names


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    assert draw(tmp_path, "abcd") == HISTOGRAMS + CURVES
    for path in tmp_path.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_no_pictures_of_empty_sets(tmp_path):
    pytest.importorskip("matplotlib")
    for questions, names in (("ab", HISTOGRAMS[:1] + CURVES), ("cd", HISTOGRAMS[1:])):
        (tmp_path / questions).mkdir()
        assert draw(tmp_path / questions, questions) == names


def test_equal_questions_give_equal_files(tmp_path):
    pytest.importorskip("matplotlib")
    contents = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        draw(tmp_path / name, "abcd")
        contents.append([(tmp_path / name / file).read_bytes() for file in HISTOGRAMS + CURVES])
    assert contents[0] == contents[1]


def test_nothing_is_drawn_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw(tmp_path, "abcd") == []
