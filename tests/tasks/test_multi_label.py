"""`run_classifier.py` with sets of labels, from files to every form of the model."""

import csv
import json

import numpy as np
import pytest
from sklearn import metrics

import albert_tf
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.conversion import run as convert
from albert_tf.tasks.fine_tuning.classification import run
from tests.tasks.animals import ANIMALS, OTHERS, PLANTS, make_options

LABELS = {"animal": ANIMALS, "plant": PLANTS}


def write_sets(path, count, seed, columns=False):
    """Writes texts that name an animal, a plant or both; with columns of 0 and 1 also none."""
    rng = np.random.default_rng(seed)
    header = ["text_a", *(f"label_{name}" for name in LABELS)] if columns else ["label", "text_a"]
    lines = ["\t".join(header)]
    while len(lines) <= count:
        has = rng.random(2) < 0.5
        if not columns and not has.any():
            continue
        words = [
            str(rng.choice(LABELS[name])) for name, one in zip(LABELS, has, strict=True) if one
        ]
        text = [*rng.choice(OTHERS, rng.integers(1, 5)), *words]
        rng.shuffle(text)
        names = [name for name, one in zip(LABELS, has, strict=True) if one]
        fields = ["|".join(names), " ".join(text)]
        lines.append("\t".join([fields[1], *map(str, has.astype(int))] if columns else fields))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def labeller(data, tmp_path_factory):
    """Metrics, and the folder above the trained one."""
    folder = tmp_path_factory.mktemp("labeller")
    options = make_options(
        data,
        folder / "out",
        train_file=write_sets(folder / "train.tsv", 400, 1),
        dev_file=write_sets(folder / "dev.tsv", 60, 2),
        test_file=write_sets(folder / "test.tsv", 30, 3, columns=True),
        label_type="set",
        do_predict=True,
        num_train_steps=150,
        random_seed=1,
        learning_rate=1e-3,
    )
    return run(options), folder


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def matrix(rows, column):
    return np.array([[name in row[column].split("|") for name in LABELS] for row in rows])


def probabilities_of(rows):
    return np.array([[float(row[f"probability_{name}"]) for name in LABELS] for row in rows])


@pytest.mark.slow
def test_learns_and_scikit_learn_agrees(labeller):
    received, folder = labeller
    assert received["mean_average_precision"] > 0.9
    rows = read_table(folder / "out" / "eval_predictions.tsv")
    sides = matrix(rows, "label"), matrix(rows, "prediction")
    for average in ("micro", "macro"):
        assert metrics.f1_score(*sides, average=average) == pytest.approx(received[f"{average}_f1"])
    expected = metrics.average_precision_score(sides[0], probabilities_of(rows))
    assert received["mean_average_precision"] == pytest.approx(expected, abs=1e-9)
    task = json.loads((folder / "out" / "task.json").read_text())
    thresholds = dict(zip(task["labels"], task["thresholds"], strict=True))
    assert thresholds == {name: received[f"threshold_{name}"] for name in LABELS}
    chosen = probabilities_of(rows) >= list(thresholds.values())
    np.testing.assert_array_equal(chosen, sides[1])
    scores = read_table(folder / "out" / "label_scores.tsv")
    assert [row["label"] for row in scores] == list(LABELS)
    assert np.mean([float(row["f1"]) for row in scores]) == pytest.approx(
        received["macro_f1"], abs=1e-6
    )
    assert not (folder / "out" / "confusion_matrix.tsv").exists()


@pytest.mark.slow
def test_columns_of_zeros_and_ones(data, tmp_path):
    asked = {
        "train_file": write_sets(tmp_path / "train.tsv", 100, 1, columns=True),
        "dev_file": write_sets(tmp_path / "dev.tsv", 60, 2, columns=True),
        "num_train_steps": 2,
    }
    received = run(make_options(data, tmp_path / "out", **asked))
    assert 0 < received["mean_average_precision"] < 1
    assert json.loads((tmp_path / "out" / "task.json").read_text())["kind"] == "multi_label"
    rows = read_table(tmp_path / "out" / "eval_predictions.tsv")
    assert "" in {row["label"] for row in rows}


@pytest.mark.slow
def test_hugging_face_there_and_back(labeller, tmp_path):
    _, folder = labeller
    there, back = str(tmp_path / "there"), str(tmp_path / "back" / "ckpt")
    options = {"init_checkpoint": str(folder / "out" / "best"), "output_checkpoint": there}
    convert(ConversionOptions(to="hugging_face", **options))
    config = json.loads((tmp_path / "there" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    texts = ["the old cat", "a rose and a fox"]
    expected = albert_tf.load(folder / "out").predict(texts).probabilities
    received = albert_tf.load(there).predict(texts)
    np.testing.assert_allclose(received.probabilities, expected, atol=1e-6)
    convert(ConversionOptions(init_checkpoint=there, to="albert_tf", output_checkpoint=back))
    metadata = json.loads((tmp_path / "back" / "task.json").read_text())
    assert (metadata["kind"], metadata["labels"]) == ("multi_label", ["animal", "plant"])
