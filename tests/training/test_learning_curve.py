import json
import sys

import pytest
import tensorflow as tf

from albert_tf.training import draw_learning_curve


@pytest.fixture
def folder(tmp_path):
    reports = [
        {"step": 0, "split": "eval", "matched_accuracy": 0.3, "matched_loss": 1.1},
        {"step": 5, "split": "train", "loss": 1.0, "learning_rate": 1e-3},
        {"step": 5, "split": "eval", "matched_accuracy": 0.5, "matched_loss": 0.9},
    ]
    lines = "".join(json.dumps(report) + "\n" for report in reports)
    (tmp_path / "metrics.jsonl").write_text(lines)
    return tmp_path


@pytest.mark.parametrize("metrics", [("accuracy",), ("accuracy", "perplexity"), ()])
def test_picture_also_beyond_local_disks(folder, metrics):
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
