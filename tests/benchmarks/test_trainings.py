"""Benchmarks that train one model after the other: which runs, in which order, and their tables."""

import csv
import json

import pytest

from albert_tf.errors import StoppedError
from benchmarks import few_rows, small_en
from benchmarks.few_rows import FewRowsOptions
from benchmarks.small_en import SmallEnOptions
from benchmarks.trainings import Results, Run, finish
from tests.benchmarks.samples import cells_of


def write_rows(path, header, rows, delimiter=","):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])


def test_finished_runs_are_not_repeated(tmp_path):
    path = str(tmp_path / "results.jsonl")
    program = (
        "import json, sys; folder = sys.argv[1].split('=')[1];"
        "json.dump({'accuracy': 0.5}, open(folder + '/eval_results.json', 'w'))"
    )
    runs = [Run({"task": task}, ["-c", program]) for task in "ab"]
    finish(runs, Results(path), str(tmp_path / "work"))
    content = (tmp_path / "results.jsonl").read_text()
    lines = [json.loads(line) for line in content.splitlines()]
    assert [line["task"] for line in lines] == ["a", "b"]
    assert all(line["scores"] == {"accuracy": 0.5} for line in lines)
    assert not list((tmp_path / "work").iterdir())
    finish(runs, Results(path), str(tmp_path / "work"))
    assert (tmp_path / "results.jsonl").read_text() == content


def test_a_failed_run_is_named_with_its_last_line_and_adds_no_result(tmp_path):
    results = Results(str(tmp_path / "results.jsonl"))
    runs = [Run({"task": "a"}, ["-c", "raise SystemExit('no such task')"])]
    with pytest.raises(StoppedError, match="failed: no such task"):
        finish(runs, results, str(tmp_path / "work"))
    assert not results.lines


def test_median_of_the_shipped_model_stands_beside_what_words_alone_give(tmp_path):
    for split in ("train", "dev"):
        rows = [("a good film", 1), ("a bad film", 0)] * 2
        write_rows(tmp_path / "SST-2" / f"{split}.tsv", ("sentence", "label"), rows, "\t")
    options = SmallEnOptions(tasks=("sst-2",), glue_dir=str(tmp_path), seeds=3)
    runs = small_en.make_runs(options)
    assert [run.key["program"] for run in runs] == ["pre-trained"] * 3 + ["random"] * 3
    results = Results(str(tmp_path / "results.jsonl"))
    for run, accuracy in zip(runs[:3], (0.9, 0.7, 0.8), strict=True):
        results.add({**run.key, "scores": {"accuracy": accuracy}})
    other = {"weights": "of another snapshot", "scores": {"accuracy": 0.1}}
    results.add({**results.lines[0], **other})
    rows = cells_of(small_en.table(options, results))
    assert rows[2] == ["sst-2", "accuracy", "80.0 (70.0 to 90.0)", "", "100.0"]


def test_samples_of_few_rows_differ_and_are_trained_on_by_the_plain_command(tmp_path):
    for split, count in (("train", 30), ("test", 10)):
        rows = [(f"a {'good' if n % 2 else 'bad'} film {n}", "ny"[n % 2]) for n in range(count)]
        write_rows(tmp_path / "films" / f"{split}.csv", ("text", "label"), rows)
    folders = {"data_dir": str(tmp_path), "work_dir": str(tmp_path / "work")}
    runs = few_rows.make_runs(
        FewRowsOptions(**folders, sets=("films",), rows=("8", "all"), samples=2)
    )
    assert [(run.key["sample"], run.key["rows"]) for run in runs] == [
        *((0, "8"), (0, "all"), (1, "8"), (1, "all"))
    ]
    assert len({run.folder for run in runs}) == 4
    names = [flag.split("=")[0] for flag in runs[0].command[1:]]
    assert names == ["--train_file", "--init_checkpoint"]
    # All rows are one sample, so another seed makes the second training.
    assert "--random_seed=1" in runs[3].command
    files = [run.command[1].removeprefix("--train_file=") for run in runs]
    contents = [few_rows.read_rows(file) for file in files]
    assert [len(rows) for rows in contents] == [8, 30, 8, 30]
    assert contents[0] != contents[2]
