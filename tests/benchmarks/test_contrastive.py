import csv

import pytest

from albert_tf.errors import FlagError
from benchmarks.contrastive import ContrastiveBenchmarkOptions, make_runs, table, write_data
from benchmarks.fine_tuning_runs import Results


def write_sts(path, pairs):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        "index\tsentence1\tsentence2\tscore",
        *("\t".join(map(str, (0, *pair))) for pair in pairs),
    ]
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture
def options(tmp_path):
    folder = tmp_path / "glue" / "STS-B"
    pairs = [("a cat", "one cat", 4.2), ("a cat", "a dog", 1.0), ("seen", "unseen", 5.0)]
    write_sts(folder / "train.tsv", pairs)
    write_sts(folder / "dev.tsv", [("seen", "a hen", 2.5)])
    return ContrastiveBenchmarkOptions(
        glue_dir=str(tmp_path / "glue"),
        work_dir=str(tmp_path / "work"),
        init_checkpoint="best",
        albert_config_file="config.json",
        spm_model_file="words.model",
        seeds=2,
    )


def read(path):
    with open(path, encoding="utf-8") as file:
        return [tuple(row.values()) for row in csv.DictReader(file, delimiter="\t")]


def test_no_text_of_dev_is_trained_on(options):
    paths = write_data(options)
    assert read(paths["unsupervised"]) == [("a cat",), ("one cat",), ("a dog",)]
    assert read(paths["pairs"]) == [("a cat", "one cat")]
    assert read(paths["dev"]) == [("seen", "a hen", "2.5")]


def test_trainings_and_their_table(options, tmp_path):
    paths = write_data(options)
    runs = make_runs(options, paths)
    assert len({run.folder for run in runs}) == len(runs) == 3 + 2 * 2 * 3
    assert f"--train_file={paths['pairs']}" in runs[-1].command
    assert "--learning_rate=0.0" in runs[0].command
    results = Results(str(tmp_path / "results.jsonl"))
    for run, score in zip(runs, (0.5, *(0.61, 0.62) * 7), strict=True):
        if run.key["pooling"] == "mean":
            results.add(run, {"scores": {"spearman": score}, "cpu_minutes": 2.0, "processor": "x"})
    row = table(runs, results).splitlines()[2]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == ["mean", "50.00"]
    assert cells[-1] == "2.0"
    assert "±" in cells[2]


def test_a_vocabulary_is_needed():
    with pytest.raises(FlagError, match="expected --spm_model_file or --vocab_file"):
        ContrastiveBenchmarkOptions(
            glue_dir="x", work_dir="x", init_checkpoint="x", albert_config_file="x"
        )
