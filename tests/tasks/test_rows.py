"""Runs know their rows: which are held out, which were trained on, and which columns they have."""

import dataclasses
import json
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import albert_tf
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.squad_questions import Answer, SquadExample
from albert_tf.data.fine_tuning.tagged_text import TaggedText
from albert_tf.data.fine_tuning.tags import Span
from albert_tf.kinds import Classification, Embedding, MultiLabel, TokenClassification
from albert_tf.model_folder import STATE_DIR
from albert_tf.tasks.fine_tuning.held_out import split_rows, warn_of_few_rows, warn_of_labels
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.tasks.fine_tuning.trained_rows import TrainedRows
from tests.helpers import refused
from tests.tasks.animals import make_options, read_table

NO_FILES = dict.fromkeys(("dev_file", "test_file"))


def examples(count, first=0):
    labels = ["ab"[number % 3 == 0] for number in range(first, first + count)]
    return [Example(f"train-{x}", f"text {first + x}", label=each) for x, each in enumerate(labels)]


def split_options(tmp_path, **flags):
    return FineTuningOptions(
        train_file="rows.csv",
        task_name="classification",
        init_checkpoint="x",
        output_dir=str(tmp_path),
        **{"do_train": True, **flags},
    )


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.integers(5, 60), st.integers(0, 60), st.integers(0, 2**31 - 1), st.booleans())
def test_rows_that_were_trained_on_stay_in_the_training_set(
    tmp_path_factory, before, more, seed, at_the_front
):
    options = split_options(tmp_path_factory.getbasetemp(), random_seed=seed)
    kind = Classification(labels=("a", "b"))
    old, new = examples(before), examples(more, first=1000)
    train, dev = split_rows(options, kind, old, None)
    rows = TrainedRows.of(train, dev)
    grown = new + old if at_the_front else old + new
    again, dev = split_rows(options, kind, grown, rows)
    texts = {example.text_a for example in again}
    assert {example.text_a for example in train} <= texts
    assert texts.isdisjoint(example.text_a for example in dev)
    assert len(again) + len(dev) == before + more
    rows.check(again, "out")


@pytest.fixture
def states(tmp_path):
    """A folder with a state."""
    (tmp_path / STATE_DIR).mkdir()
    (tmp_path / STATE_DIR / "step-1.safetensors").touch()
    return str(tmp_path)


def test_other_rows_are_refused_and_fewer_counted(states, capsys):
    TrainedRows.of(examples(20), examples(4, first=500)).write(states)
    rows = TrainedRows.read(states)
    rows.check(examples(20), states)
    rows.check(examples(30), states)
    rows.check([dataclasses.replace(each, guid="7") for each in examples(20)][::-1], states)
    rows.check(examples(20) + examples(4, first=500), states)
    assert capsys.readouterr().err == ""
    # A dev row may take the place of one that was deleted.
    rows.check(examples(19) + examples(1, first=500), states)
    assert "the run was trained on 1 rows that are no longer there" in capsys.readouterr().err
    with refused(
        r"holds a run that was trained on other rows: 5 of its 20 are not among these 20, 5 of"
    ):
        rows.check(examples(20, first=5), states)
    relabelled = [dataclasses.replace(examples(1)[0], label="c"), *examples(20)[1:]]
    with refused("other rows: 1 of its 20 are not among these 20, 1 of which are new"):
        rows.check(relabelled, states)
    TrainedRows.of(examples(30)).write(states)
    assert TrainedRows.read(states).trained.total() == 30
    pathlib.Path(states, STATE_DIR, "rows.npz").write_bytes(b"PK\x03\x04")
    with refused(r"rows.npz: damaged; expected it as it was written"):
        TrainedRows.read(states)


def test_all_examples_have_a_hash():
    question = SquadExample("1", "who?", "Ann", (Answer("Ann", 0),))
    other = dataclasses.replace(question, question="what?")
    rows = [question, other, ("a", 1), {"x": [1]}, "text", Example("", "a", "b", choices=("c",))]
    assert len(TrainedRows.of(rows).trained) == len(rows)
    assert TrainedRows.of([dataclasses.replace(question, id="2")]) == TrainedRows.of([question])
    assert TrainedRows.of([object()]) == TrainedRows.of([object()])


def test_names_of_classes_are_one_label_each(tmp_path, capsys):
    labels = ["a|b", "a", "b"] * 20 + ["b|a", "a|b|c"]
    rows = [Example(str(x), f"text {x}", label=label) for x, label in enumerate(labels)]
    for seed in range(20):
        kind = Classification(labels=tuple(sorted({*labels})))
        train, dev = split_rows(split_options(tmp_path, random_seed=seed), kind, rows, None)
        assert not {"b|a", "a|b|c"} & {example.label for example in dev}
    capsys.readouterr()
    warn_of_few_rows(kind, "x.csv", train)
    assert "hardly learn labels of a single row: 'b|a', 'a|b|c'" in capsys.readouterr().err
    warn_of_few_rows(MultiLabel(labels=("a", "b", "c")), "x.csv", train)
    assert "hardly learn labels of a single row: 'c'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("labels", "count", "are_scores"),
    [
        (("0.5", "1", "1.5"), 1000, True),
        (("-1e-3", "2"), 9, True),
        (tuple(map(str, range(40))), 60, True),
        (tuple(map(str, range(40))), 4000, False),
        (("0", "1", "2"), 3, False),
        (("a", "0.5"), 9, False),
    ],
)
def test_labels_that_look_like_scores_are_said(labels, count, are_scores, capsys):
    warn_of_labels(Classification(labels=labels), "x.csv", [None] * count)
    said = capsys.readouterr().err
    assert ("--task_name=regression learns scores" in said) == are_scores


def test_too_few_rows_name_all_ways_out(tmp_path):
    kind = Classification(labels=("a", "b"))
    with refused(
        "x|rows.csv: too few rows to evaluate on; expected --dev_file, or --dev_fraction=0"
    ):
        split_rows(split_options(tmp_path, do_eval=True), kind, examples(2), None)


@pytest.mark.parametrize(
    ("kind", "row", "count"),
    [
        (TokenClassification(), TaggedText("", "a cat", spans=(Span(2, 5, "X"),)), 2),
        (Embedding(), Example("", "a", "b", label="1"), 2),
        (Embedding(), Example("", "a", "b"), 0),
        (Embedding(), Example("", "a", "b", negative="c"), 0),
    ],
)
def test_rows_are_held_out_if_they_can_be_evaluated(kind, row, count, tmp_path):
    options = split_options(tmp_path, do_eval=False)
    train, dev = split_rows(options, kind, [row] * 20, None)
    assert (len(train), len(dev)) == (20 - count, count)


def test_folds_and_grown_files(data, tmp_path, capsys, eagerly):
    rows = read_table(data / "train.tsv")[:120]
    flags = {"num_train_steps": 1, "learning_rate": 0.0, "do_eval": False}
    options = make_options(data, tmp_path / "out", **NO_FILES, **flags)
    run(options, {"train": rows[:60]})
    capsys.readouterr()
    run(options, {"train": rows[:60]})
    assert "warning: classification: 1 of 1 steps are done already" in capsys.readouterr().err
    with refused(
        "out: holds a run that was trained on other rows: .* expected the same rows, or more"
    ):
        run(options, {"train": rows[30:90]})
    grown = []
    run(options, {"train": rows}, check=lambda data: grown.append(data))
    kept = {example.texts for example in grown[0].sets["train"][0].examples}
    first = TrainedRows.read(options.output_dir)
    assert first.trained.total() == len(kept)
    assert len(grown[0].dev_set.examples) + len(kept) == len(rows)


def with_columns(rows):
    """Returns rows whose usual columns say nothing."""
    return [
        {"text": "markup", "clean": row["text_a"], "kind": row["label"], "label": str(number)}
        for number, row in enumerate(rows)
    ]


def test_columns_of_the_training_are_those_of_all_that_follows(
    data, trained, tmp_path, capsys, eagerly
):
    train, dev = (with_columns(read_table(data / f"{name}.tsv")) for name in ("train", "dev"))
    names = {"text_column": "clean", "label_column": "kind"}
    flags = {"num_train_steps": 1, "learning_rate": 0.0, "reset_head": True, "max_seq_length": 24}
    out = tmp_path / "out"
    model = albert_tf.fine_tune(str(trained / "best"), train, dev, output_dir=out, **names, **flags)
    expected = model.evaluate(dev, **names)
    assert model.evaluate(dev) == expected
    assert albert_tf.load(out).evaluate(dev) == expected
    paths = model.export(str(tmp_path / "exported"))
    assert albert_tf.load(paths["ids"]).evaluate(dev) == pytest.approx(expected, rel=1e-4)
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in dev))
    options = FineTuningOptions(
        output_dir=str(out), do_eval=True, dev_file=str(tmp_path / "dev.jsonl")
    )
    assert run(options)["accuracy"] == pytest.approx(expected["accuracy"])
    capsys.readouterr()
    run(FineTuningOptions(output_dir=str(out), predict_file=str(tmp_path / "dev.jsonl")))
    received = capsys.readouterr()
    predicted = [line.split("\t")[0] for line in received.out.splitlines()[1:]]
    assert predicted == model.predict([row["clean"] for row in dev]).label
    assert "'clean' as the text" in received.err
    # A table that has them under usual names is read, too.
    renamed = [{"text_a": row["clean"], "label": row["kind"]} for row in dev]
    assert model.evaluate(renamed) == pytest.approx(expected)
    assert "has no column 'clean', the --text_column that the model was" in capsys.readouterr().err
    with refused("--text_column=missing: dev has no such column"):
        model.evaluate(dev, text_column="missing")


def test_columns_of_labels_are_those_of_all_that_follows(data, trained, tmp_path, capsys, eagerly):
    train, dev = (
        [
            {"clean": row["text_a"], "toxic": number % 2, "obscene": int(number % 3 == 0)}
            for number, row in enumerate(read_table(data / f"{name}.tsv"))
        ]
        for name in ("train", "dev")
    )
    names = {"text_column": "clean", "label_columns": "toxic,obscene"}
    flags = {
        "kind": "multi_label",
        "num_train_steps": 1,
        "learning_rate": 0.0,
        "reset_head": True,
        "max_seq_length": 24,
    }
    out = tmp_path / "out"
    model = albert_tf.fine_tune(str(trained / "best"), train, dev, output_dir=out, **names, **flags)
    assert model.labels == ("toxic", "obscene")
    assert albert_tf.load(out).evaluate(dev) == model.evaluate(dev)
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in dev))
    capsys.readouterr()
    run(FineTuningOptions(output_dir=str(out), predict_file=str(tmp_path / "dev.jsonl")))
    received = capsys.readouterr()
    assert received.out.splitlines()[0].endswith("probability_toxic\tprobability_obscene")
    assert len(received.out.splitlines()) == 1 + len(dev)
    for changed in ("obscene,toxic", "toxic,length"):
        rows = [{**row, "length": 1} for row in train]
        with refused("holds a model of another task: labels"):
            albert_tf.fine_tune(
                str(trained / "best"),
                rows,
                [{**row, "length": 1} for row in dev],
                output_dir=out,
                **{**names, "label_columns": changed},
                **{**flags, "num_train_steps": 2},
            )


def test_predictions_say_which_text_is_unknown(trained, capsys):
    model = albert_tf.load(trained)
    count = len(model.kind.texts)
    for call in (model.predict, model.predict_json):
        call(*[["ΩΩ жж"]] * count)
        assert "warning: predict: " in (said := capsys.readouterr().err)
        assert "% of the pieces are unknown to" in said
        call(*[["cat"]] * count)
        assert "unknown" not in capsys.readouterr().err
    row = dict(zip(("text_a", "text_b"), ["ΩΩ жж"] * count, strict=False))
    model.evaluate([{**row, "label": label} for label in model.labels])
    assert "warning: dev: " in capsys.readouterr().err
