"""Scores and choices from the user's own files, all the way; what differs from classes."""

import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

import albert_tf
from albert_tf.errors import InputError
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions, run
from tests.data.race_folder import write_race
from tests.tasks.animals import ANIMALS, NO_FILES, OTHERS, PLANTS, make_options


def write_scores(path, count, seed):
    """The score is the number of animals in the text: none or three."""
    rng = np.random.default_rng(seed)
    lines = ["label\ttext_a\ttext_b"]
    for _ in range(count):
        animals = 3 * rng.integers(2)
        words = [*rng.choice(ANIMALS, animals), *rng.choice(OTHERS, 4)]
        rng.shuffle(words)
        lines.append(f"{animals}\t{' '.join(words)}\t{rng.choice(PLANTS)}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_choices(path, count, seed):
    """The answer is the only animal among the choices."""
    rng = np.random.default_rng(seed)
    lines = ["choice_a\tchoice_b\tchoice_c\tlabel\ttext_a\ttext_b"]
    for _ in range(count):
        right = rng.integers(3)
        choices = list(rng.choice(PLANTS, 3))
        choices[right] = rng.choice(ANIMALS)
        lines.append("\t".join([*choices, "ABC"[right], "one sees", "the big _ ?"]))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.slow
def test_scores(data, tmp_path):
    metrics = run(
        make_options(
            data,
            tmp_path / "out",
            train_file=write_scores(tmp_path / "train.tsv", 400, seed=1),
            dev_file=write_scores(tmp_path / "dev.tsv", 50, seed=2),
            test_file=write_scores(tmp_path / "test.tsv", 20, seed=3),
            label_type="float",
            do_predict=True,
            learning_rate=1e-3,
            num_train_steps=150,
        )
    )
    assert set(metrics) == {"pearson", "spearman", "loss"}
    assert metrics["pearson"] > 0.7

    rows = read_table(tmp_path / "out" / "eval_predictions.tsv")
    assert set(rows[0]) == {"guid", "label", "prediction"}
    scores = np.array([[float(row["label"]), float(row["prediction"])] for row in rows])
    assert stats.pearsonr(*scores.T).statistic == pytest.approx(metrics["pearson"], abs=1e-5)
    assert np.square(scores[:, 0] - scores[:, 1]).mean() == pytest.approx(metrics["loss"], abs=1e-4)
    assert not (tmp_path / "out" / "confusion_matrix.tsv").exists()

    predicted = read_table(tmp_path / "out" / "test_results.tsv")
    rows = read_table(tmp_path / "test.tsv")
    columns = ([row[name] for row in rows] for name in ("text_a", "text_b"))
    loaded = albert_tf.load(tmp_path / "out").predict(*columns)
    expected = [float(row["prediction"]) for row in predicted]
    np.testing.assert_allclose(loaded.score, expected, atol=2e-6)


@pytest.mark.slow
def test_choices(data, tmp_path, monkeypatch, capsys):
    options = make_options(
        data,
        tmp_path / "out",
        train_file=write_choices(tmp_path / "train.tsv", 300, seed=1),
        dev_file=write_choices(tmp_path / "dev.tsv", 50, seed=2),
        test_file=write_choices(tmp_path / "test.tsv", 20, seed=3),
        max_qa_length=12,
        learning_rate=1e-3,
        num_train_steps=150,
        do_predict=True,
    )
    metrics = run(options)
    assert metrics["accuracy"] > 0.8
    rows = read_table(tmp_path / "out" / "eval_predictions.tsv")
    right = np.mean([row["label"] == row["prediction"] for row in rows])
    assert right == pytest.approx(metrics["accuracy"])
    matrix = read_table(tmp_path / "out" / "confusion_matrix.tsv")
    assert sum(int(row[row["label"]]) for row in matrix) == round(50 * right)

    predicted = read_table(tmp_path / "out" / "test_results.tsv")
    rows = read_table(tmp_path / "test.tsv")
    loaded = albert_tf.load(tmp_path / "out").predict(
        [row["text_a"] for row in rows],
        [row["text_b"] for row in rows],
        [[row[f"choice_{letter}"] for letter in "abc"] for row in rows],
    )
    assert loaded.label == [row["prediction"] for row in predicted]
    expected = [[float(row[f"probability_{letter}"]) for letter in "ABC"] for row in predicted]
    np.testing.assert_allclose(loaded.probabilities, expected, atol=2e-6)

    row = read_table(tmp_path / "test.tsv")[0]
    fields = [row[name] for name in ("text_a", "text_b", "choice_a", "choice_b", "choice_c")]
    (answer,) = answer_lines(tmp_path / "out", monkeypatch, capsys, "\t".join(fields))
    assert answer[0] == predicted[0]["prediction"]
    lines = ("\t".join(fields[:4]), "\t".join([*fields[:4], " "]))
    with pytest.raises(InputError, match="2 of 2 lines could not be answered"):
        answer_lines(tmp_path / "out", monkeypatch, capsys, *lines)
    first, second = capsys.readouterr().err.splitlines()
    assert "line 1: received 4 texts; expected text_a, text_b and 3 choices" in first
    assert "standard input, line 2: a choice is empty" in second


def answer_lines(output_dir, monkeypatch, capsys, *lines):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    capsys.readouterr()
    run(ClassificationOptions(output_dir=str(output_dir), predict_file="-"))
    return capsys.readouterr().out.splitlines()[1:]


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
    path = write_choices(tmp_path / "train.tsv", 5, seed=1)
    options = make_options(
        data, tmp_path / "out", train_file=path, dev_file=None, do_eval=False, max_qa_length=21
    )
    with pytest.raises(InputError, match=r"^max_seq_length=24: expected at least 25"):
        run(options)
