"""Benchmarks that train one model after the other: which runs, in which order, and their tables."""

import csv
import dataclasses
import json

from albert_tf.data.fine_tuning.squad_questions import read_squad
from benchmarks import few_rows, real_scores, small_en
from benchmarks.few_rows import FewRowsOptions
from benchmarks.real_scores import RealScoresOptions, split_squad
from benchmarks.small_en import SmallEnOptions
from benchmarks.trainings import Results, Run, finish
from tests.benchmarks.samples import cells_of
from tests.helpers import refused


def write_rows(path, header, rows, delimiter=","):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])


def real_options(folder, **changes):
    names = {"glue_dir": "glue", "work_dir": "work", "squad_file": "squad.json"}
    names |= {"model_dir": "model", "results": "results.jsonl"}
    values = {name: str(folder / file) for name, file in names.items()}
    return RealScoresOptions(**{**values, "tasks": ("mrpc",), "seeds": 1, **changes})


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


def test_programs_take_turns_with_the_same_hyperparameters(tmp_path):
    options = real_options(tmp_path, tasks=("cola", "sts-b"), seeds=2)
    runs = real_scores.make_runs(options, "model")
    expected = [("cola", 1, "albert_tf"), ("cola", 1, "transformers"), ("cola", 2, "albert_tf")]
    keys = [(run.key["task"], run.key["seed"], run.key["program"]) for run in runs]
    assert keys[:3] == expected
    assert len({run.folder for run in runs}) == len(runs) == 8
    ours, theirs = (set(run.command) for run in runs[:2])
    assert {flag for flag in theirs if flag.startswith("--")} < ours
    assert "--num_train_steps=1000" in theirs


def test_table_has_the_lines_of_these_hyperparameters(tmp_path):
    options = real_options(tmp_path, tasks=("mrpc", "cola"), seeds=2)
    values = dataclasses.asdict(real_scores.TASKS["mrpc"])
    lines = [
        {
            **{"program": program, "task": "mrpc", "seed": seed, **values},
            **{"scores": {"accuracy": accuracy + seed / 100, "f1": 0.5}, "cpu_minutes": 2.5},
        }
        for program, accuracy in (("albert_tf", 0.8), ("transformers", 0.79))
        for seed in (2, 1)
    ]
    lines.append({**lines[0], "num_train_steps": 3})
    rows = cells_of(real_scores.table(options, lines))
    assert rows[2][:5] == ["mrpc", "accuracy", "300", "81.5 ± 0.7", "80.5 ± 0.7"]
    assert rows[2][5:] == ["81.0, 82.0", "80.0, 81.0", "2.5 / 2.5"]
    assert rows[3][:4] == ["cola", "matthews_corrcoef", "1000", ""]


def test_every_fifth_article_of_squad_is_evaluated_on_with_its_answerable_questions(tmp_path):
    articles = []
    for number in range(11):
        answers = [{"text": "a word", "answer_start": 0}]
        questions = [
            {"id": f"{number}-{kind}", "question": "which", "answers": of_kind}
            for kind, of_kind in (("with", answers), ("without", []))
        ]
        articles.append({"title": "", "paragraphs": [{"context": "a word", "qas": questions}]})
    (tmp_path / "squad.json").write_text(json.dumps({"version": "2.0", "data": articles}))
    paths = split_squad(str(tmp_path / "squad.json"), str(tmp_path / "data"))
    assert list(paths) == ["train_file", "predict_file"]
    ids = [[example.id for example in read_squad(path)] for path in paths.values()]
    assert ids[1] == ["0-with", "5-with", "10-with"]
    assert sorted(ids[0] + ids[1]) == sorted(f"{n}-with" for n in range(11))


def test_a_missing_model_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(real_scores, "_PACKAGE", "no_such_package")
    with refused("--model_dir: expected a folder, or the package no_such"):
        real_scores._main(real_options(tmp_path, model_dir=None))


def test_median_of_the_shipped_model_stands_beside_what_words_alone_give(tmp_path):
    for split in ("train", "dev"):
        rows = [("a good film", 1), ("a bad film", 0)] * 2
        write_rows(tmp_path / "SST-2" / f"{split}.tsv", ("sentence", "label"), rows, "\t")
    options = SmallEnOptions(tasks=("sst-2",), glue_dir=str(tmp_path), seeds=3)
    runs = small_en.make_runs(options)
    assert [run.key["program"] for run in runs] == ["pre-trained"] * 3 + ["random"] * 3
    lines = [
        {**run.key, "scores": {"accuracy": accuracy}}
        for run, accuracy in zip(runs[:3], (0.9, 0.7, 0.8), strict=True)
    ]
    lines.append({**lines[0], "weights": "of another snapshot", "scores": {"accuracy": 0.1}})
    rows = cells_of(small_en.table(options, lines))
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
