import dataclasses
import itertools
import json

import numpy as np
import pytest

from albert_tf.data.squad.questions import read_squad
from albert_tf.errors import FlagError, InputError
from benchmarks import real_scores
from benchmarks.fine_tuning_runs import Results, Run, finish
from benchmarks.real_scores import (
    SQUAD,
    Hyperparameters,
    RealScoresOptions,
    make_runs,
    split_squad,
    table,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make_options(folder, **changes):
    values = {
        "glue_dir": str(folder / "glue"),
        "work_dir": str(folder / "work"),
        "squad_file": str(folder / "squad.json"),
        "model_dir": str(folder / "model"),
        "results": str(folder / "results.jsonl"),
        "tasks": ("mrpc",),
        "seeds": 1,
        "max_train_steps": 2,
        **changes,
    }
    return RealScoresOptions(**values)


def test_programs_take_turns_with_the_same_hyperparameters(tmp_path):
    runs = make_runs(make_options(tmp_path, tasks=("cola", "sts-b"), seeds=2), "model")
    assert [(run.key["task"], run.key["seed"], run.key["program"]) for run in runs[:3]] == [
        ("cola", 1, "albert_tf"),
        ("cola", 1, "transformers"),
        ("cola", 2, "albert_tf"),
    ]
    assert len({run.folder for run in runs}) == len(runs) == 8
    ours, theirs = (set(run.command) for run in runs[:2])
    assert {flag for flag in theirs if flag.startswith("--")} < ours
    assert "--num_train_steps=2" in theirs


def test_table_has_the_lines_of_these_hyperparameters(tmp_path):
    options = make_options(tmp_path, tasks=("mrpc", "cola"), seeds=2)
    values = dataclasses.asdict(options.hyperparameters("mrpc"))
    lines = [
        {
            **{"program": program, "task": "mrpc", "seed": seed, **values},
            **{"scores": {"accuracy": accuracy + seed / 100, "f1": 0.5}, "cpu_minutes": 2.5},
        }
        for program, accuracy in (("albert_tf", 0.8), ("transformers", 0.79))
        for seed in (2, 1)
    ]
    lines.append({**lines[0], "num_train_steps": 3})
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in table(options, lines).splitlines()
    ]
    assert rows[2] == [
        *("mrpc", "accuracy", "2", "81.5 ± 0.7", "80.5 ± 0.7"),
        *("81.0, 82.0", "80.0, 81.0", "2.5 / 2.5"),
    ]
    assert rows[3][:4] == ["cola", "matthews_corrcoef", "2", ""]


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
    runs = [Run({"task": task}, ["-c", program], keep=task == "b") for task in "ab"]
    finish(runs, Results(path), str(tmp_path / "work"))
    content = (tmp_path / "results.jsonl").read_text()
    lines = [json.loads(line) for line in content.splitlines()]
    assert [(line["task"], line["scores"]) for line in lines] == [
        ("a", {"accuracy": 0.5}),
        ("b", {"accuracy": 0.5}),
    ]
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["b"]
    finish(runs, Results(path), str(tmp_path / "work"))
    assert (tmp_path / "results.jsonl").read_text() == content


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    with pytest.raises(FlagError, match="--glue_dir: expected a value for --tasks=mrpc"):
        make_options(tmp_path, glue_dir=None)
    with pytest.raises(FlagError, match="--squad_file: expected a value for --tasks=squad"):
        make_options(tmp_path, squad_file=None, tasks=(SQUAD,))
    with pytest.raises(FlagError, match="--tasks: received 'rte'; expected sst-2 or cola"):
        make_options(tmp_path, tasks=("rte",))
    monkeypatch.setattr(real_scores, "_PACKAGE", "no_such_package")
    with pytest.raises(InputError, match="--model_dir: expected a folder, or the package no_such"):
        real_scores._main(make_options(tmp_path, model_dir=None))


NO_CHANCE = {
    "initializer_range": 0.2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
WORDS = ["".join(word) for word in itertools.product("abcdefghij", repeat=2)][:92]


def write_model(model_class, folder, **changes):
    """Writes a small random model of transformers, with a tokenizer that knows `WORDS`."""
    config = model_class.config_class(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=192,
        **changes,
    )
    model_class(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS]))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    )


def write_pairs(folder, header, columns):
    """Writes a task's train and dev set, alike: `columns` returns the columns around the texts."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(40):
        texts = [" ".join(rng.choice(WORDS, count)) for count in (5, 4)]
        before, after = columns(number)
        rows.append("\t".join([*before, *texts, *after]))
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_smoke_of_both_programs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    write_model(transformers.BertModel, tmp_path / "model")
    write_pairs(
        tmp_path / "glue" / "MRPC",
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        lambda number: ([str(number % 2), *2 * [str(number)]], []),
    )
    squad = {"version": "2.0", "data": squad_articles(6, WORDS)}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    for task in ("mrpc", SQUAD):
        monkeypatch.setitem(real_scores.TASKS, task, Hyperparameters(2, 1, max_seq_length=192))
    real_scores._main(make_options(tmp_path, tasks=("mrpc", SQUAD)))
    lines = Results(str(tmp_path / "results.jsonl")).lines
    assert [line["program"] for line in lines] == 2 * ["albert_tf", "transformers"]
    metrics = 2 * [("accuracy", 1)] + 2 * [("f1", 100)]
    for line, (metric, largest) in zip(lines, metrics, strict=True):
        assert 0 <= line["scores"][metric] <= largest
        assert line["cpu_minutes"] > 0
    assert "| squad" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_dropout_and_order_both_programs_make_the_same_updates(tmp_path, monkeypatch):
    # Nothing is random: the head is in the folder, the dropout rates are 0, and each batch has all rows.
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    write_model(
        transformers.BertForSequenceClassification,
        tmp_path / "model",
        num_labels=1,
        **NO_CHANCE,
    )
    write_pairs(
        tmp_path / "glue" / "STS-B",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        lambda number: ([str(number), *6 * ["none"]], [str(number % 6)]),
    )
    values = Hyperparameters(100, 10, learning_rate=3e-3, train_batch_size=40)
    monkeypatch.setitem(real_scores.TASKS, "sts-b", values)
    options = make_options(tmp_path, tasks=("sts-b",), max_train_steps=None)
    ours, theirs = make_runs(options, options.model_dir)
    ours = dataclasses.replace(ours, command=[*ours.command, "--classifier_dropout=0"])
    results = Results(options.results)
    finish([ours, theirs], results, options.work_dir)
    ours, theirs = (line["scores"] for line in results.lines)
    # The rows are learned by heart, so that equal scores mean equal updates.
    assert ours["pearson"] > 0.9
    for metric in ("pearson", "spearman"):
        np.testing.assert_allclose(ours[metric], theirs[metric], atol=1e-3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_programs_make_the_same_updates_for_questions(tmp_path, monkeypatch):
    # Nothing is random, as above. After 20 updates the questions of the training set are half learned.
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    write_model(transformers.BertForQuestionAnswering, tmp_path / "model", **NO_CHANCE)
    rng = np.random.default_rng(0)
    articles = []
    for number in range(50):
        words = list(rng.choice(WORDS, 30, replace=False))
        context, place = " ".join(words), int(rng.integers(20))
        answer = " ".join(words[place : place + 3])
        answers = [{"text": answer, "answer_start": context.index(answer)}]
        question = {"id": str(number), "question": words[place], "answers": answers}
        articles.append({"title": "", "paragraphs": [{"context": context, "qas": [question]}]})
    (tmp_path / "squad.json").write_text(json.dumps({"version": "1.1", "data": articles}))
    values = Hyperparameters(20, 2, learning_rate=1e-3, train_batch_size=40, max_seq_length=192)
    monkeypatch.setitem(real_scores.TASKS, SQUAD, values)
    options = make_options(tmp_path, tasks=(SQUAD,), max_train_steps=None)
    results = Results(options.results)
    learned = str(tmp_path / "work" / "data" / "train_file.json")
    runs = [
        dataclasses.replace(run, command=[*run.command, f"--predict_file={learned}"])
        for run in make_runs(options, options.model_dir)
    ]
    finish(runs, results, options.work_dir)
    ours, theirs = (line["scores"] for line in results.lines)
    assert 20 < ours["f1"] < 100
    for metric in ("exact_match", "f1"):
        assert ours[metric] == pytest.approx(theirs[metric], abs=0.1)
