"""Skipped steps, and the picture of a learning curve."""

import sys

import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.training import draw_learning_curve
from albert_tf.training.evaluator import StepMeans
from albert_tf.training.reports import BadSteps
from tests.helpers import refused


def add(bad_steps, last, flags):
    values = tf.constant([[flag, 1.0] for flag in flags])
    bad_steps.add(last, StepMeans(("skipped_updates",), values))
    bad_steps.check(is_chief=True)


def test_skipped_steps_are_named_up_to_the_last_one_that_is_allowed(capsys):
    bad_steps = BadSteps(2)
    add(bad_steps, 7, [0, 1, 0, 1, 0, 0, 1])
    assert bad_steps.in_a_row == 1
    with refused(r"^step 9: the loss or gradient of 3 consecutive steps"):
        add(bad_steps, 10, [1, 1, 1])
    skipped = "skipped, its loss or gradient is not finite"
    assert capsys.readouterr().err.splitlines() == [
        f"warning: step {step}: {skipped}" for step in (2, 4, 7, 8, 9)
    ]


@pytest.fixture
def folder(tmp_path):
    reports = [
        {"step": 0, "split": "eval", "matched_accuracy": 0.3, "matched_loss": 1.1},
        {"step": 5, "split": "train", "loss": 1.0, "learning_rate": 1e-3},
        {"step": 5, "split": "eval", "matched_accuracy": 0.5, "matched_loss": 0.9},
    ]
    files.write_json_lines(str(tmp_path / "metrics.jsonl"), reports)
    return tmp_path


@pytest.mark.parametrize("metrics", [("accuracy",), ("accuracy", "perplexity"), ()])
def test_picture_also_beyond_local_disks(folder, metrics, pictures):
    pytest.importorskip("matplotlib")
    tf.io.gfile.makedirs("ram://curve")
    tf.io.gfile.copy(str(folder / "metrics.jsonl"), "ram://curve/metrics.jsonl", overwrite=True)
    for output_dir in (str(folder), "ram://curve"):
        path = draw_learning_curve(output_dir, *metrics)
        with tf.io.gfile.GFile(path, "rb") as file:
            assert file.read(8) == b"\x89PNG\r\n\x1a\n"


def test_nothing_is_drawn_without_matplotlib(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw_learning_curve(str(folder), "accuracy") is None
    assert [path.name for path in folder.iterdir()] == ["metrics.jsonl"]
