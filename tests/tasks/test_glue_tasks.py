"""Real rows of the GLUE tasks, with the published vocabulary and a tiny model; RACE; submissions."""

import json

import numpy as np
import pytest

from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.files import to_json
from albert_tf.tasks.fine_tuning.data import read_data
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import write_submission
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.tokenization import WordPieceTokenizer
from tests.data.fine_tuning.test_glue import read
from tests.data.race_folder import write_race
from tests.data.tfds_folder import glue_records, write_tfds
from tests.helpers import refused, shared_path, tiny_config, write_wordpiece
from tests.tasks import animals
from tests.tasks.animals import complete, read_table


def make_options(tmp_path, task, folder="data/glue", **changes):
    config = tmp_path / "albert_config.json"
    tiny_config(vocab_size=30000, num_hidden_layers=1).to_json_file(str(config))
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
    return FineTuningOptions(**{**values, **changes})


@pytest.mark.slow
def test_mnli_has_two_sets_and_predicts_ax(tmp_path):
    short = {"num_train_steps": 2, "train_batch_size": 4}
    received = run(make_options(tmp_path, "MNLI", "data/glue/format_samples", **short))
    out = tmp_path / "out"
    for name in ("matched", "mismatched"):
        rows = read_table(out / f"eval_predictions_{name}.tsv")
        right = [row["label"] == row["prediction"] for row in rows]
        assert received[f"{name}_accuracy"] == np.mean(right)
        assert (out / f"confusion_matrix_{name}.tsv").exists()
    assert len(read_table(out / "MNLI-m.tsv")) == len(read_table(out / "MNLI-mm.tsv")) == 1

    data_dir = str(shared_path("data/glue"))
    alone = {"output_dir": str(out), "do_predict": True, "data_dir": data_dir}
    run(FineTuningOptions(task_name="AX", **alone))
    rows = read_table(out / "AX.tsv")
    assert len(rows) == 1104
    assert {row["prediction"] for row in rows} <= {"contradiction", "entailment", "neutral"}
    with refused(r"of another task: task_name mnli, but this run has wnli"):
        run(FineTuningOptions(task_name="WNLI", **alone))


def test_a_run_reads_tensorflow_datasets(tmp_path):
    columns = find_task("wnli").tfds.columns
    records = {}
    for split, name in {"train": "train", "dev": "validation", "test": "test"}.items():
        rows = read("wnli", shared_path("data/glue"), split)
        records[name] = list(glue_records("glue/wnli", rows, columns))
    write_tfds("glue/wnli", tmp_path / "tfds", records)
    source = {"data_source": "tfds", "data_dir": str(tmp_path / "tfds")}
    options = make_options(tmp_path, "WNLI", spm_model_file=None, **source)
    words = write_wordpiece(tmp_path / "vocab.txt", ["the"])
    data = read_data(complete(options), WordPieceTokenizer(words))
    for split in ("train", "dev", "test"):
        expected = read("wnli", shared_path("data/glue"), split)
        (received,) = data.sets[split]
        assert [one.text_a for one in received.examples] == [one.text_a for one in expected]


def test_each_race_level_has_its_accuracy(data, tmp_path, eagerly):
    write_race(tmp_path, together=True)
    # The middle school's dev set has more questions than the high school's.
    path = tmp_path / "dev" / "high" / "all.txt"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    out = tmp_path / "out"
    options = {"task_name": "race", "data_dir": str(tmp_path), "max_qa_length": 10}
    more = {"do_predict": True, "num_train_steps": 1, "train_batch_size": 4}
    metrics = run(animals.make_options(data, out, **animals.NO_FILES, **options, **more))
    names = ["accuracy", "loss", "calibration_error", "high_accuracy", "middle_accuracy"]
    assert list(metrics) == names
    results = json.loads((out / "eval_results.json").read_text())
    assert results.pop("baselines").keys() == {"most_frequent_label", "bag_of_words"}
    assert results == metrics
    rows = read_table(out / "eval_predictions.tsv")
    for level, count in (("high", 2), ("middle", 6)):
        right = [row["label"] == row["prediction"] for row in rows if row["guid"].startswith(level)]
        assert len(right) == count
        assert metrics[f"{level}_accuracy"] == np.mean(right)
    answers = json.loads((out / "race_answers.json").read_text())
    of_high = [id_ for id_ in answers if id_.startswith("high")]
    assert of_high == ["high2.txt", "high10.txt", "high100.txt"]
    assert all(len(letters) == 2 and set(letters) <= set("ABCD") for letters in answers.values())


QUESTIONS = ("high1.txt-0", "high1.txt-1", "middle-2.txt-0")
SCORES = "index\tprediction\n0\t0.000000\n7\t5.000000\n"
ANSWERS = {"high1.txt": ["A", "D"], "middle-2.txt": ["B"]}


@pytest.mark.parametrize(
    ("task", "set_name", "guids", "predictions", "file", "content"),
    [
        ("mnli", "mismatched", "79", "ba", "MNLI-mm.tsv", "index\tprediction\n7\tb\n9\ta\n"),
        # Scores are clipped.
        ("sts-b", "", "07", ["-0.2", "5.01"], "STS-B.tsv", SCORES),
        ("race", "", QUESTIONS, "ADB", "race_answers.json", to_json(ANSWERS)),
    ],
)
def test_submissions(tmp_path, task, set_name, guids, predictions, file, content):
    examples = [Example(guid, "text") for guid in guids]
    path = write_submission(str(tmp_path), find_task(task), set_name, examples, predictions)
    assert path == f"{tmp_path}/{file}"
    assert (tmp_path / file).read_text() == content
