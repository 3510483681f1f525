"""Every kind gives the same answers on every road: trained folder, exported models, lines of text."""

import dataclasses
import functools
import io
import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.kinds import KINDS
from albert_tf.kinds.registry import read_kind
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions
from tests.kinds.samples import SAMPLES, run
from tests.tasks import plants

pytestmark = pytest.mark.parametrize("name", SAMPLES)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function from a kind to its options, its folder and the metrics of its run."""

    @functools.cache
    def train(name):
        folder = tmp_path_factory.mktemp(name)
        options = SAMPLES[name].make_options(folder)
        return options, folder, run(options)

    return train


@pytest.fixture(scope="module")
def predicted(trained):
    """A function from a kind to a few texts and what the trained folder predicts for them."""

    @functools.cache
    def predict(name):
        _, folder, _ = trained(name)
        texts = SAMPLES[name].texts(folder)
        return texts, SAMPLES[name].result(albert_tf.load(folder / "out").predict(*texts))

    return predict


def assert_same(received, expected):
    """Compares lists of tuples, texts and numbers; a tuple may lack the last parts."""
    if isinstance(received, tuple):
        for one, other in zip(received, expected, strict=False):
            assert_same(one, other)
    elif isinstance(received, list):
        assert len(received) == len(expected)
        for one, other in zip(received, expected, strict=True):
            assert_same(one, other)
    elif isinstance(received, str):
        assert received == expected
    else:
        np.testing.assert_allclose(received, expected, atol=2e-5)


def test_every_kind_is_tested(name):
    assert set(SAMPLES) == set(KINDS)


def test_task_json_describes_the_kind(name, trained):
    _, folder, metrics = trained(name)
    kind = read_kind(folder / "out")
    assert kind.name == name
    assert kind.metrics[0] in metrics
    for form in ("ids", "text"):
        assert read_kind(folder / "exported" / form / "1" / "assets") == kind


def test_files_have_the_same(name, trained, predicted):
    _, folder, _ = trained(name)
    names = ("eval_predictions.tsv", "eval_predictions.jsonl", "predictions.json")
    (path,) = (folder / "out" / file for file in names if (folder / "out" / file).exists())
    if name == "embedding":
        return  # pairs of texts, of which the file has cosines
    if path.suffix == ".tsv":
        rows = [line.split("\t")[2:] for line in path.read_text().splitlines()[1:]]
        received = [SAMPLES[name].answer(fields) for fields in rows]
    elif path.suffix == ".jsonl":
        rows = [json.loads(line)["spans"] for line in path.read_text().splitlines()]
        received = [SAMPLES[name].answer([json.dumps(spans)]) for spans in rows]
    else:
        received = [(answer,) for answer in json.loads(path.read_text()).values()]
    _, expected = predicted(name)
    assert_same(received[: len(expected)], expected)


@pytest.mark.parametrize("form", ["ids", "text"])
def test_exported_model_predicts_the_same(name, form, trained, predicted):
    _, folder, _ = trained(name)
    texts, expected = predicted(name)
    received = albert_tf.load(folder / "exported" / form / "1").predict(*texts)
    assert_same(SAMPLES[name].result(received), expected)


def test_text_model_answers_the_same(name, trained, predicted):
    _, folder, _ = trained(name)
    texts, expected = predicted(name)
    loaded = tf.saved_model.load(str(folder / "exported" / "text" / "1"))
    answer = loaded.signatures["serving_default"]
    inputs = read_kind(folder / "out").text_specs()
    columns = {key: tf.constant(column) for key, column in zip(inputs, texts, strict=True)}
    outputs = {key: values.numpy() for key, values in answer(**columns).items()}
    assert_same(SAMPLES[name].outputs(outputs), expected)


def test_lines_are_answered_the_same(name, trained, predicted, monkeypatch, capsys):
    _, folder, _ = trained(name)
    texts, expected = predicted(name)
    rows = zip(*texts, strict=True)
    flat = ([*row] if isinstance(row[-1], str) else [*row[:-1], *row[-1]] for row in rows)
    lines = "\n".join("\t".join(fields) for fields in flat).encode()
    for place in (
        {"output_dir": str(folder / "out")},
        {"exported_model": str(folder / "exported" / "ids" / "1")},
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
        capsys.readouterr()
        run(ClassificationOptions(task_name=None, predict_file="-", **place))
        header, *answers = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
        assert tuple(header) == read_kind(folder / "out").answer_columns
        assert_same([SAMPLES[name].answer(fields) for fields in answers], expected)


def test_evaluations_agree(name, trained, tmp_path):
    options, folder, metrics = trained(name)
    assert json.loads((folder / "out" / "eval_results.json").read_text()) == metrics
    # The run is finished, so the same command only evaluates.
    assert run(dataclasses.replace(options, export_dir=None)) == metrics
    dev_file = "predict_file" if SAMPLES[name].module is plants else "dev_file"
    exported = type(options)(
        exported_model=str(folder / "exported" / "ids" / "1"),
        output_dir=str(tmp_path),
        do_eval=True,
        **{dev_file: getattr(options, dev_file)},
    )
    assert run(exported) == pytest.approx(metrics, abs=1e-4)
