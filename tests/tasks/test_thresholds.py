"""A threshold of two labels, chosen on the dev set by a metric: the same labels on every road."""

import dataclasses
import io
import json

import numpy as np
import pytest
from sklearn import metrics

import albert_tf
from albert_tf import files
from albert_tf.kinds.registry import read_kind
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from tests.export.runtimes import need
from tests.helpers import refused
from tests.tasks.animals import class_rows, make_options, read_table, write_table

FILES = ("eval_predictions.tsv", "eval_results.json", "best/config.json", "best/model.safetensors")


def write_rare(path, count, seed):
    """Writes texts, of which some plants are called animals: it is better to say plant too often."""
    rng = np.random.default_rng(seed)
    rows = [
        ("animal" if label == "plant" and rng.random() < 0.6 else label, text)
        for label, text, _ in class_rows(rng, "", count)
    ]
    return write_table(path, ("label", "text_a"), rows)


@pytest.fixture(scope="module")
def chosen(data, tmp_path_factory):
    """Options, folder and metrics of a training with a threshold; tests only read the folder."""
    folder = tmp_path_factory.mktemp("chosen")
    options = make_options(
        data,
        folder / "out",
        train_file=write_rare(folder / "train.tsv", 400, seed=1),
        dev_file=write_rare(folder / "dev.tsv", 150, seed=2),
        num_train_steps=200,
        save_checkpoints_steps=50,
        threshold_metric="f1",
        best_metric="roc_auc",
        export_dir=str(folder / "exported"),
    )
    return options, folder / "out", run(options)


def split_answers(path):
    rows = read_table(path)
    found = [row["prediction"] for row in rows]
    return found, np.array([float(row["probability_plant"]) for row in rows]), rows


def test_the_metrics_are_those_of_the_threshold(chosen):
    _, out, values = chosen
    found, probabilities, rows = split_answers(out / "eval_predictions.tsv")
    true = [row["label"] == "plant" for row in rows]
    predicted = [label == "plant" for label in found]
    assert values["f1"] == pytest.approx(metrics.f1_score(true, predicted))
    assert values["accuracy"] == pytest.approx(metrics.accuracy_score(true, predicted))
    assert values["roc_auc"] == pytest.approx(metrics.roc_auc_score(true, probabilities), abs=1e-6)
    assert values["f1"] > metrics.f1_score(true, probabilities > 0.5) + 0.02
    of_limits = probabilities >= np.linspace(0, 1, 1001)[:, None]
    different = np.unique(of_limits, axis=0)
    best = max(metrics.f1_score(true, flags, zero_division=0) for flags in different)
    assert values["f1"] >= best
    kind = read_kind(out / "best")
    assert kind.threshold_by == "f1"
    assert kind.head_temperature != 1  # the threshold is one of the divided logits
    assert kind.threshold == values["threshold"] != 0.5
    lines = files.read_json_lines(str(out / "metrics.jsonl"))
    evaluations = [line for line in lines if line["split"] == "eval"]
    # The divided logits are rounded, so texts that are nearly alike may change places.
    best = max(line["roc_auc"] for line in evaluations)
    assert best == pytest.approx(values["roc_auc"], abs=2e-3)


def test_all_roads_have_the_same_labels(chosen, monkeypatch, capsys):
    options, out, values = chosen
    expected, _, _ = split_answers(out / "eval_predictions.tsv")
    texts = [row["text_a"] for row in read_table(options.dev_file)]
    assert albert_tf.load(out).predict(texts).label == expected
    assert albert_tf.load(out).evaluate(options.dev_file)["f1"] == pytest.approx(values["f1"])
    lines = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode()))
    monkeypatch.setattr("sys.stdin", lines)
    for asked in ({"predict_file": "-"}, {"predict_file": options.dev_file}):
        capsys.readouterr()
        run(FineTuningOptions(output_dir=str(out), predict_format="jsonl", **asked))
        answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [answer["prediction"] for answer in answers] == expected
    for form in ("ids", "text"):
        exported = albert_tf.load(out.parent / "exported" / form / "1")
        assert exported.predict(texts).label == expected
        assert exported.evaluate(options.dev_file)["f1"] == pytest.approx(values["f1"])
    asked = {"predict_file": options.dev_file, "threshold_metric": "none"}
    run(FineTuningOptions(output_dir=str(out), predict_format="jsonl", **asked))
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for answer in answers:
        is_plant = answer["probability_plant"] > answer["probability_animal"]
        assert answer["prediction"] == ("plant" if is_plant else "animal")
    assert [answer["prediction"] for answer in answers] != expected


def test_the_same_command_changes_nothing_and_another_metric_is_refused(chosen):
    options, out, values = chosen
    options = dataclasses.replace(options, export_dir=None)
    before = {name: (out / name).read_bytes() for name in FILES}
    assert run(options) == values
    assert {name: (out / name).read_bytes() for name in FILES} == before
    with refused(
        "holds the checkpoints of a run with threshold_metric f1; --threshold_metric says a"
    ):
        run(dataclasses.replace(options, threshold_metric="accuracy"))


def test_a_later_evaluation_may_choose_by_another_metric(data, tmp_path, eagerly):
    steps = {"num_train_steps": 6, "save_checkpoints_steps": 2}
    options = make_options(data, tmp_path / "out", **steps, best_metric="loss")
    run(options)
    out = options.output_dir
    lines = files.read_json_lines(f"{out}/metrics.jsonl")
    lines = [line for line in lines if line["split"] == "eval" and line["step"]]
    losses = {line["step"]: line["loss"] for line in lines}
    assert files.read_json(f"{out}/best/config.json")["albert_tf"]["metrics"]["step"] == min(
        losses, key=losses.get
    )
    asked = {"output_dir": out, "threshold_metric": "macro_f1"}
    with refused(f"^--output_dir={out}: has no threshold, which --do_eval writes; expected it$"):
        run(FineTuningOptions(predict_file=options.test_file, **asked))
    values = run(FineTuningOptions(do_eval=True, dev_file=options.dev_file, **asked))
    kind = read_kind(f"{out}/best")
    assert (kind.threshold_metric, kind.threshold_by) == ("macro_f1", "macro_f1")
    assert kind.threshold == values["threshold"]
    assert albert_tf.load(out).evaluate(options.dev_file)["macro_f1"] == values["macro_f1"]


@pytest.mark.parametrize("form", ["tflite", "onnx", "openvino"])
def test_other_runtimes_have_its_logits(form, chosen, tmp_path):
    need(form)
    options, out, values = chosen
    asked = {"do_eval": True, "dev_file": options.dev_file, "export_format": form}
    run(FineTuningOptions(output_dir=str(out), export_dir=str(tmp_path), **asked))
    (config,) = tmp_path.glob("*/1/assets/config.json")
    assert json.loads(config.read_text())["albert_tf"]["kind"]["threshold"] == values["threshold"]
    (card,) = tmp_path.glob("*/1/README.md")
    assert f"{values['f1']:.4f}"[:5] in card.read_text()
