"""Real rows of the GLUE tasks, with the published vocabulary and a tiny model."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.errors import InputError
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions, run
from tests.data.fine_tuning.test_glue import read
from tests.data.tfds_folder import glue_records, write_tfds
from tests.helpers import shared_path, tiny_config
from tests.tasks.animals import read_table


def make_options(tmp_path, task, folder="data/glue", **changes):
    config = tmp_path / "albert_config.json"
    tiny_config(vocab_size=30000, num_hidden_layers=2).to_json_file(str(config))
    values = {
        "task_name": task,
        "data_dir": str(shared_path(folder)),
        "albert_config_file": str(config),
        "spm_model_file": str(shared_path("data/sentencepiece/30k-clean.model")),
        "output_dir": str(tmp_path / "out"),
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "max_seq_length": 64,
        "learning_rate": 1e-3,
        "num_train_steps": 30,
        "save_checkpoints_steps": 30,
    }
    return ClassificationOptions(**{**values, **changes})


def columns(rows, convert=str):
    return [[convert(row[name]) for row in rows] for name in ("label", "prediction")]


def accuracy(rows):
    return metrics.accuracy_score(*columns(rows))


METRICS = {
    "accuracy": accuracy,
    "f1": lambda rows: metrics.f1_score(*columns(rows), pos_label="1", zero_division=0),
    "matthews_corrcoef": lambda rows: metrics.matthews_corrcoef(*columns(rows)),
    "pearson": lambda rows: stats.pearsonr(*columns(rows, float)).statistic,
    "spearman": lambda rows: stats.spearmanr(*columns(rows, float)).statistic,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "names", "dev", "test", "submission"),
    [
        ("CoLA", ("matthews_corrcoef", "accuracy"), 1043, 1063, "CoLA.tsv"),
        ("SST-2", ("accuracy",), 872, 1821, "SST-2.tsv"),
        ("MRPC", ("accuracy", "f1"), 408, 1725, "MRPC.tsv"),
        ("STS-B", ("pearson", "spearman"), 1500, 1379, "STS-B.tsv"),
        ("WNLI", ("accuracy",), 71, 146, "WNLI.tsv"),
    ],
)
def test_metrics_match_the_predictions(tmp_path, task, names, dev, test, submission):
    received = run(make_options(tmp_path, task))
    assert {*names, "loss"} <= set(received)
    rows = read_table(tmp_path / "out" / "eval_predictions.tsv")
    assert len(rows) == dev
    for name in names:
        # The scores in the file have six digits after the point.
        tolerance = 2e-3 if name == "spearman" else 1e-4
        assert received[name] == pytest.approx(METRICS[name](rows), abs=tolerance)

    results = read_table(tmp_path / "out" / "test_results.tsv")
    rows = read_table(tmp_path / "out" / submission)
    assert [row["index"] for row in rows] == [str(number) for number in range(test)]
    received = [row["prediction"] for row in rows]
    if task == "STS-B":
        expected = np.clip([float(row["prediction"]) for row in results], 0, 5)
        assert [float(score) for score in received] == pytest.approx(expected)
    else:
        assert received == [row["prediction"] for row in results]


@pytest.mark.slow
def test_mnli_has_two_sets_and_predicts_ax(tmp_path):
    options = make_options(
        tmp_path, "MNLI", "data/glue/format_samples", num_train_steps=2, train_batch_size=4
    )
    received = run(options)
    out = tmp_path / "out"
    for name in ("matched", "mismatched"):
        rows = read_table(out / f"eval_predictions_{name}.tsv")
        assert received[f"{name}_accuracy"] == accuracy(rows)
        assert (out / f"confusion_matrix_{name}.tsv").exists()
    assert len(read_table(out / "MNLI-m.tsv")) == len(read_table(out / "MNLI-mm.tsv")) == 1

    data_dir = str(shared_path("data/glue"))
    alone = {"output_dir": str(out), "do_predict": True, "data_dir": data_dir}
    run(ClassificationOptions(task_name="AX", **alone))
    rows = read_table(out / "AX.tsv")
    assert len(rows) == 1104
    assert {row["prediction"] for row in rows} <= {"contradiction", "entailment", "neutral"}
    with pytest.raises(InputError, match=r"of another task: task_name mnli, but this run has wnli"):
        run(ClassificationOptions(task_name="WNLI", **alone))


def test_tensorflow_datasets_are_trained_on_and_predicted(tmp_path):
    columns = find_task("wnli").tfds.columns
    records = {}
    for split, name in {"train": "train", "dev": "validation", "test": "test"}.items():
        rows = read("wnli", shared_path("data/glue"), split)
        records[name] = list(glue_records("glue/wnli", rows, columns))
    write_tfds("glue/wnli", tmp_path / "tfds", records)
    options = make_options(tmp_path, "WNLI", num_train_steps=2, learning_rate=1e-4)
    received = run(
        dataclasses.replace(options, data_source="tfds", data_dir=str(tmp_path / "tfds"))
    )
    assert {"accuracy", "f1", "loss"} <= set(received)
    rows = read_table(tmp_path / "out" / "WNLI.tsv")
    assert [row["index"] for row in rows] == [str(number) for number in range(146)]
