"""Fine-tuning from Python: the engine of the scripts, and what the returned model can do."""

import json
import pathlib
import re

import numpy as np
import pytest

import albert_tf
from albert_tf.tasks.optimizers import OPTIMIZERS
from tests.data.squad_file import to_records
from tests.helpers import refused
from tests.tasks import plants
from tests.tasks.animals import read_table

MODEL = {"albert_config_file": "albert_config.json", "spm_model_file": "words.model"}


def flags(data):
    model = {name: str(data / file) for name, file in MODEL.items()}
    training = {"train_batch_size": 16, "num_train_steps": 60, "save_checkpoints_steps": 30}
    return {**model, **training, "max_seq_length": 24, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def tuned(data, trained, tmp_path_factory):
    """A model that `fine_tune` returned, what its callback received, and the dev set."""
    reports = []
    rows, dev = (read_table(data / f"{name}.tsv") for name in ("train", "dev"))
    model = albert_tf.fine_tune(
        str(trained / "best"),
        rows,
        dev,
        output_dir=tmp_path_factory.mktemp("tuned") / "out",
        callback=lambda step, metrics: reports.append((step, dict(metrics))),
        **flags(data),
    )
    return model, reports, dev


def test_returns_what_load_returns_and_reports_every_evaluation(tuned):
    model, reports, dev = tuned
    again = albert_tf.load(model.source)
    texts = [row["text_a"] for row in dev]
    received, expected = (each.predict(texts).probabilities for each in (model, again))
    np.testing.assert_array_equal(received, expected)
    evaluations = {step: metrics for step, metrics in reports if "eval_accuracy" in metrics}
    assert list(evaluations) == [0, 30, 60]
    assert any("train_loss" in metrics for _, metrics in reports)
    results = json.loads(pathlib.Path(model.source, "eval_results.json").read_text())
    best = max(metrics["eval_accuracy"] for metrics in evaluations.values())
    assert results["accuracy"] == pytest.approx(best)


def test_evaluates_data_in_memory_and_files(tuned, data):
    model, _, dev = tuned
    results = json.loads(pathlib.Path(model.source, "eval_results.json").read_text())
    assert results.pop("baselines")["bag_of_words"]["accuracy"] == 1.0
    assert model.evaluate(dev) == pytest.approx(results, rel=1e-5)
    assert model.evaluate(data / "dev.tsv") == pytest.approx(results, rel=1e-5)
    renamed = [{"body": row["text_a"], "label": row["label"]} for row in dev]
    assert model.evaluate(renamed, text_column="body") == pytest.approx(results, rel=1e-5)
    with refused(r"^dev\[0\]: unknown label 'stone'"):
        model.evaluate([{"text": "a flint", "label": "stone"}])


def test_predicts_from_one_text_and_any_sequence(tuned):
    model, _, _ = tuned
    texts = ["the old cat", "a big rose"]
    expected = model.predict(texts)
    for sequence in (tuple(texts), np.array(texts), np.array(texts, object)):
        np.testing.assert_array_equal(model.predict(sequence).probabilities, expected.probabilities)
    one = model.predict(texts[0])
    assert one.label == expected.label[:1]
    assert model.embed(texts[0]).shape == (1, 48)
    answers = json.loads(json.dumps(model.predict_json(texts)))
    assert [answer["prediction"] for answer in answers] == expected.label
    probabilities = [[answer[f"probability_{name}"] for name in model.labels] for answer in answers]
    np.testing.assert_allclose(probabilities, expected.probabilities, rtol=1e-6)


def test_says_what_it_is(tuned, capsys):
    model, _, _ = tuned
    size = model.model.count_params()
    assert repr(model) == (
        f"<Loaded classification, 2 labels (animal, plant), {size:,} parameters, from "
        f"'{model.source}'>"
    )
    model.summary()
    assert "Total params" in capsys.readouterr().out


def test_answers_to_questions(trained, tmp_path, eagerly):
    plants.write_data(tmp_path)
    options = plants.make_options(tmp_path, tmp_path)
    same = {"max_seq_length": 40, "max_query_length": 7, "doc_stride": 17, "num_train_steps": 1}
    same |= {"kind": "question_answering", "output_dir": tmp_path / "out"}
    rows = list(to_records(options.dev_file))
    model = albert_tf.fine_tune(trained, rows, options.dev_file, recipe="paper", **same)
    assert model.evaluate(rows) == model.evaluate(options.dev_file)
    (answer,) = model.predict_json("which plant", "the old oak sees a cat")
    assert set(answer) == {"answer", "start", "end", "score", "null_odds"}
    with refused(r"^train\[0\]: not SQuAD: question is missing, expected"):
        albert_tf.fine_tune(trained, [{"text": "a"}], **{**same, "output_dir": tmp_path / "new"})
    rows.append({**rows[0], "id": "new", "answers": {"text": [], "answer_start": []}})
    with refused(r"^dev: expected data to choose null_score_diff_thresh"):
        albert_tf.fine_tune(trained, rows, **{**same, "output_dir": tmp_path / "new"})


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("classification", [("the old cat", "x"), ("a big rose", "y"), ("an oak", "y")]),
        ("multiple_choice", [("the old cat", "A"), ("a big rose", "B"), ("an oak", "B")]),
    ],
)
def test_labels_are_smoothed_in_the_training_alone(data, trained, tmp_path, eagerly, kind, rows):
    choices = {"choice_a": "a dog", "choice_b": "an oak"} if kind == "multiple_choice" else {}
    rows = [{"text": text, "label": label, **choices} for text, label in rows]
    values = {**flags(data), "kind": kind, "num_train_steps": 1, "save_checkpoints_steps": 1}
    values |= {"class_weights": "balanced", "log_steps": 1, "reset_head": True}
    reported = {}
    for smoothing in (0.0, 0.1):
        metrics = reported[smoothing] = {}
        folder = tmp_path / str(smoothing)
        model = albert_tf.fine_tune(
            trained,
            rows,
            rows,
            output_dir=folder,
            label_smoothing=smoothing,
            callback=lambda step, values, to=metrics: to.setdefault(step, {}).update(values),
            **values,
        )
        assert model.kind.label_smoothing == smoothing
    plain, smoothed = reported.values()
    assert plain[0]["eval_loss"] == smoothed[0]["eval_loss"]
    assert plain[1]["train_loss"] != smoothed[1]["train_loss"]
    message = r"a run with label_smoothing 0\.1; --label_smoothing says 0\.2"
    with refused(message):
        albert_tf.fine_tune(trained, rows, rows, output_dir=folder, label_smoothing=0.2, **values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "tagging"}, "^kind='tagging': unknown kind 'tagging'; expected classification, "),
        ({"learning_rat": 1}, "unknown argument 'learning_rat'; did you mean learning_rate"),
        ({"do_train": False}, "^fine_tune: unknown argument 'do_train'"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0: expected at least 0"),
        ({"learning_rate": "3e-5"}, r"^learning_rate='3e-5': expected float \| None$"),
        (
            {"optimizer": "adam"},
            "^" + re.escape(f"optimizer='adam': expected Optional[Literal{[*OPTIMIZERS]}]") + "$",
        ),
        ({"deterministic": True}, "^deterministic: expected before TensorFlow runs anything"),
        ({"train": [{"text": "a", "label": None}]}, r"^train\[0\]: the label is missing"),
        ({"train": "gone.csv"}, "^--train_file: no file 'gone.csv'$"),
        (
            {"train": [{"text": "a", "labels": ["x", "y"]}]},
            "^kind='classification': the columns of",
        ),
    ],
)
def test_mistakes_are_one_line(data, trained, tmp_path, arguments, message):
    values = {"train": [{"text": "x", "label": label} for label in "ab"], **flags(data)}
    values |= {"output_dir": tmp_path / "out", "dev_fraction": 0.0, **arguments}
    with refused(message, tmp_path):
        albert_tf.fine_tune(str(trained / "best"), **values)


@pytest.mark.parametrize(
    ("trainable", "moved"), [("head", ()), ("pooler,embedding", ("embedding", "pooler"))]
)
def test_parts_that_are_not_trainable_keep_their_values(
    data, trained, tmp_path, trainable, moved, eagerly
):
    before = albert_tf.load(trained).model.encoder
    rows = read_table(data / "train.tsv")
    how = {**flags(data), "trainable": trainable, "dev_fraction": 0.0}
    how |= {"num_train_steps": 1, "warmup_steps": 0}
    model = albert_tf.fine_tune(
        str(trained / "best"), rows, output_dir=tmp_path / "out", **how
    ).model
    assert not np.allclose(
        *(np.ravel(each.head.weights[0]) for each in (model, albert_tf.load(trained).model))
    )
    for part in ("embedding", "pooler", "checkpointed_block_0"):
        pairs = zip(
            getattr(before, part).weights, getattr(model.encoder, part).weights, strict=True
        )
        is_same = all(np.array_equal(old, new) for old, new in pairs)
        assert is_same == (part not in moved)


def test_what_has_no_head_needs_other_parts_to_train(data, trained, tmp_path):
    pairs = [{"text_a": "a cat", "text_b": "the old cat"}] * 20
    how = {**flags(data), "kind": "embedding", "output_dir": tmp_path / "out"}
    with refused(r"^--trainable=head: embedding has no head; expected emb"):
        albert_tf.fine_tune(str(trained / "best"), pairs, trainable="head", **how)
