import csv

import pytest

from albert_tf.errors import InputError
from benchmarks import few_rows
from benchmarks.few_rows import FewRowsOptions, make_runs, table
from tests.benchmarks.samples import cells_of


def write_rows(path, count):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [(f"a {'good' if n % 2 else 'bad'} film {n}", "ny"[n % 2]) for n in range(count)]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def make_options(tmp_path, **changes):
    for split, count in (("train", 30), ("test", 10)):
        write_rows(tmp_path / "films" / f"{split}.csv", count)
    values = {"data_dir": str(tmp_path), "work_dir": str(tmp_path / "work"), "sets": ("films",)}
    return FewRowsOptions(**{**values, "rows": ("8", "all"), "samples": 2, **changes})


def test_samples_differ_and_are_trained_on_by_the_plain_command(tmp_path):
    runs = make_runs(make_options(tmp_path))
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


def test_table_has_the_baselines_on_the_same_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(few_rows, "_embed", lambda model, texts: [[len(text)] for text in texts])
    options = make_options(tmp_path)
    scores = ({"accuracy": 0.5, "macro_f1": 0.4}, {"accuracy": 0.7, "macro_f1": 0.5})
    runs = [run for run in make_runs(options) if run.key["rows"] == "8"]
    lines = [{**run.key, "scores": each} for run, each in zip(runs, scores, strict=True)]
    lines.append({**lines[0], "weights": "of another snapshot"})
    rows = cells_of(table(options, lines))
    assert rows[0][:3] == ["rows", "set", "plain command"]
    assert rows[2][:3] == ["8", "films", "60.0 / 45.0 (50.0 to 70.0)"]
    assert rows[3][2:4] == ["", "100.0 / 100.0"]


def test_numbers_of_rows_are_numbers_or_all():
    with pytest.raises(InputError, match="rows"):
        FewRowsOptions(rows=("many",))
