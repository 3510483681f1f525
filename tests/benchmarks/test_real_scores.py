import dataclasses
import json

import pytest

from albert_tf.data.fine_tuning.squad_questions import read_squad
from albert_tf.errors import InputError
from benchmarks import real_scores
from benchmarks.real_scores import RealScoresOptions, make_runs, split_squad, table
from benchmarks.trainings import Results, Run, finish
from tests.benchmarks.samples import cells_of


def make_options(folder, **changes):
    values = {
        "glue_dir": str(folder / "glue"),
        "work_dir": str(folder / "work"),
        "squad_file": str(folder / "squad.json"),
        "model_dir": str(folder / "model"),
        "results": str(folder / "results.jsonl"),
        "tasks": ("mrpc",),
        "seeds": 1,
        **changes,
    }
    return RealScoresOptions(**values)


def test_programs_take_turns_with_the_same_hyperparameters(tmp_path):
    runs = make_runs(make_options(tmp_path, tasks=("cola", "sts-b"), seeds=2), "model")
    expected = [("cola", 1, "albert_tf"), ("cola", 1, "transformers"), ("cola", 2, "albert_tf")]
    keys = [(run.key["task"], run.key["seed"], run.key["program"]) for run in runs]
    assert keys[:3] == expected
    assert len({run.folder for run in runs}) == len(runs) == 8
    ours, theirs = (set(run.command) for run in runs[:2])
    assert {flag for flag in theirs if flag.startswith("--")} < ours
    assert "--num_train_steps=1000" in theirs


def test_table_has_the_lines_of_these_hyperparameters(tmp_path):
    options = make_options(tmp_path, tasks=("mrpc", "cola"), seeds=2)
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
    rows = cells_of(table(options, lines))
    assert rows[2][:5] == ["mrpc", "accuracy", "300", "81.5 ± 0.7", "80.5 ± 0.7"]
    assert rows[2][5:] == ["81.0, 82.0", "80.0, 81.0", "2.5 / 2.5"]
    assert rows[3][:4] == ["cola", "matthews_corrcoef", "1000", ""]


def squad_articles(count, words):
    """Returns articles of one passage, with a question that has an answer and one that has none."""
    articles = []
    for number in range(count):
        answer = words[number]
        questions = [
            {"id": f"{number}-{kind}", "question": words[-1], "answers": answers}
            for kind, answers in (("with", [{"text": answer, "answer_start": 0}]), ("without", []))
        ]
        context = " ".join([answer, *words[20:60]])
        articles.append({"title": "", "paragraphs": [{"context": context, "qas": questions}]})
    return articles


def test_every_fifth_article_of_squad_is_evaluated_on(tmp_path):
    articles = squad_articles(11, [f"word{n}" for n in range(80)])
    (tmp_path / "squad.json").write_text(json.dumps({"version": "2.0", "data": articles}))
    paths = split_squad(str(tmp_path / "squad.json"), str(tmp_path / "data"))
    assert list(paths) == ["train_file", "predict_file"]
    ids = [[example.id for example in read_squad(path)] for path in paths.values()]
    assert ids[1] == ["0-with", "5-with", "10-with"]
    assert sorted(ids[0] + ids[1]) == sorted(f"{n}-with" for n in range(11))


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


def test_a_missing_model_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(real_scores, "_PACKAGE", "no_such_package")
    with pytest.raises(InputError, match="--model_dir: expected a folder, or the package no_such"):
        real_scores._main(make_options(tmp_path, model_dir=None))
