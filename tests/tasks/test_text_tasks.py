"""Scores, sets of labels and choices, all the way; what differs from classes."""

import io
import json

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from albert_tf.errors import InputError
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions, run
from tests.data.race_folder import write_race
from tests.kinds.samples import LABELS, choice_rows, score_rows, set_rows, write_table
from tests.tasks.animals import NO_FILES, make_options, read_table

CHOICES = ("label", "text_a", "text_b", "choice_a", "choice_b", "choice_c")


def files(folder, rows, header, train, dev, test=20):
    """Writes the files of the splits, and returns the options that name them."""
    return {
        f"{split}_file": write_table(
            folder / f"{split}.tsv", header, rows(np.random.default_rng(seed), split, count)
        )
        for seed, (split, count) in enumerate({"train": train, "dev": dev, "test": test}.items(), 1)
    }


@pytest.mark.slow
def test_scores(data, tmp_path):
    received = run(
        make_options(
            data,
            tmp_path / "out",
            **files(tmp_path, score_rows, ("label", "text_a", "text_b"), 400, 50),
            label_type="float",
            learning_rate=1e-3,
            num_train_steps=150,
        )
    )
    assert set(received) == {"pearson", "spearman", "loss"}
    assert received["pearson"] > 0.7

    rows = read_table(tmp_path / "out" / "eval_predictions.tsv")
    assert set(rows[0]) == {"guid", "label", "prediction"}
    scores = np.array([[float(row["label"]), float(row["prediction"])] for row in rows])
    assert stats.pearsonr(*scores.T).statistic == pytest.approx(received["pearson"], abs=1e-5)
    assert np.square(scores[:, 0] - scores[:, 1]).mean() == pytest.approx(
        received["loss"], abs=1e-4
    )
    assert not (tmp_path / "out" / "confusion_matrix.tsv").exists()


@pytest.mark.slow
def test_sets_of_labels(data, tmp_path):
    out = tmp_path / "out"
    received = run(
        make_options(
            data,
            out,
            **files(tmp_path, set_rows, ("label", "text_a"), 400, 60),
            label_type="set",
            num_train_steps=150,
            random_seed=1,
            learning_rate=1e-3,
        )
    )
    assert received["mean_average_precision"] > 0.9
    rows = read_table(out / "eval_predictions.tsv")
    sides = [
        np.array([[name in row[column].split("|") for name in LABELS] for row in rows])
        for column in ("label", "prediction")
    ]
    probabilities = np.array(
        [[float(row[f"probability_{name}"]) for name in LABELS] for row in rows]
    )
    for average in ("micro", "macro"):
        assert metrics.f1_score(*sides, average=average) == pytest.approx(received[f"{average}_f1"])
    expected = metrics.average_precision_score(sides[0], probabilities)
    assert received["mean_average_precision"] == pytest.approx(expected, abs=1e-9)
    task = json.loads((out / "task.json").read_text())
    thresholds = dict(zip(task["labels"], task["thresholds"], strict=True))
    assert thresholds == {name: received[f"threshold_{name}"] for name in LABELS}
    np.testing.assert_array_equal(probabilities >= list(thresholds.values()), sides[1])
    scores = read_table(out / "label_scores.tsv")
    assert [row["label"] for row in scores] == list(LABELS)
    f1 = np.mean([float(row["f1"]) for row in scores])
    assert f1 == pytest.approx(received["macro_f1"], abs=1e-6)
    assert not (out / "confusion_matrix.tsv").exists()


@pytest.mark.slow
def test_choices(data, tmp_path, monkeypatch, capsys):
    options = make_options(
        data,
        tmp_path / "out",
        **files(tmp_path, choice_rows, CHOICES, 300, 50),
        max_qa_length=12,
        learning_rate=1e-3,
        num_train_steps=150,
    )
    received = run(options)
    assert received["accuracy"] > 0.8
    rows = read_table(tmp_path / "out" / "eval_predictions.tsv")
    right = np.mean([row["label"] == row["prediction"] for row in rows])
    assert right == pytest.approx(received["accuracy"])
    matrix = read_table(tmp_path / "out" / "confusion_matrix.tsv")
    assert sum(int(row[row["label"]]) for row in matrix) == round(50 * right)

    row = read_table(tmp_path / "test.tsv")[0]
    fields = [row[name] for name in CHOICES[1:]]
    lines = ("\t".join(fields[:4]), "\t".join([*fields[:4], " "]))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    capsys.readouterr()
    with pytest.raises(InputError, match="2 of 2 lines could not be answered"):
        run(ClassificationOptions(output_dir=str(tmp_path / "out"), predict_file="-"))
    first, second = capsys.readouterr().err.splitlines()
    assert "line 1: received 4 texts; expected text_a, text_b and 3 choices" in first
    assert "standard input, line 2: a choice is empty" in second


def test_each_race_level_has_its_accuracy(data, tmp_path):
    write_race(tmp_path, together=True)
    # The middle school's dev set has more questions than the high school's.
    path = tmp_path / "dev" / "high" / "all.txt"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    out = tmp_path / "out"
    options = {"task_name": "race", "data_dir": str(tmp_path), "max_qa_length": 10}
    more = {"do_predict": True, "num_train_steps": 1, "train_batch_size": 4}
    metrics = run(make_options(data, out, **NO_FILES, **options, **more))
    assert list(metrics) == ["accuracy", "loss", "high_accuracy", "middle_accuracy"]
    assert json.loads((out / "eval_results.json").read_text()) == metrics
    rows = read_table(out / "eval_predictions.tsv")
    for level, count in (("high", 2), ("middle", 6)):
        right = [row["label"] == row["prediction"] for row in rows if row["guid"].startswith(level)]
        assert len(right) == count
        assert metrics[f"{level}_accuracy"] == np.mean(right)
    answers = json.loads((out / "race_answers.json").read_text())
    assert [id_ for id_ in answers if id_.startswith("high")] == [
        *("high2.txt", "high10.txt", "high100.txt"),
    ]
    assert all(len(letters) == 2 and set(letters) <= set("ABCD") for letters in answers.values())


def test_choices_need_room(data, tmp_path):
    more = {**files(tmp_path, choice_rows, CHOICES, 5, 5), "max_qa_length": 21}
    options = make_options(data, tmp_path / "out", **more)
    with pytest.raises(InputError, match=r"^max_seq_length=24: expected at least 25"):
        run(options)
