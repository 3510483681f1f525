import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.question_answering import run
from tests.data.squad_file import make_squad, write_squad
from tests.tasks.plants import make_options, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    write_data(folder)
    return folder


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def questions_of(path):
    paragraphs = read(path)["data"][0]["paragraphs"]
    return [(question, one["context"]) for one in paragraphs for question in one["qas"]]


@pytest.mark.parametrize(("version", "head"), [("v1", None), ("v2", None), ("v2", "simple")])
def test_learns_evaluates_and_answers_as_its_exported_model(data, tmp_path, version, head):
    out = tmp_path / "out"
    options = make_options(
        data, out, version, head=head, export_dir=str(tmp_path / "exported"), train_batch_size=32
    )
    metrics = run(options)
    assert metrics["f1"] > 60
    assert read(out / "eval_results.json") == pytest.approx(metrics)
    assert read(out / "config.json")["head"] == (
        head or {"v1": "simple"}.get(version, "conditional")
    )
    best = read(next((out / "best").glob("*.json")))
    assert best["f1"] == pytest.approx(metrics["f1"])
    predictions = read(out / "predictions.json")
    assert (out / "null_odds.json").exists() == (version == "v2")

    loaded = tf.saved_model.load(str(tmp_path / "exported" / "text" / "1"))
    asked = questions_of(data / f"dev-{version}.json")
    answers = loaded.signatures["serving_default"](
        question=tf.constant([question["question"] for question, _ in asked]),
        context=tf.constant([context for _, context in asked]),
    )
    texts = [answer.decode() for answer in answers["answer"].numpy()]
    assert texts == [predictions[question["id"]] for question, _ in asked]
    spans = zip(texts, answers["start"].numpy(), answers["end"].numpy(), asked, strict=True)
    assert all(context[start:end] == text for text, start, end, (_, context) in spans)
    if version == "v2":
        odds = read(out / "null_odds.json")
        expected = [odds[question["id"]] for question, _ in asked]
        np.testing.assert_allclose(answers["null_score"], expected, atol=1e-4)
        assert "" in texts

    # From the folder alone, without right answers.
    for question, _ in (found := questions_of(data / f"dev-{version}.json")):
        del question["answers"]
    path = write_squad(tmp_path / "asked.json", make_squad(*((c, [q]) for q, c in found)))
    again = dataclasses.replace(
        type(options)(output_dir=str(out), predict_file=path, do_predict=True, num_workers=1)
    )
    (out / "predictions.json").unlink()
    run(again)
    assert read(out / "predictions.json") == predictions
    # Score the file without a model.
    scores = run(
        type(options)(
            output_dir=str(tmp_path / "scores"),
            predict_file=str(data / f"dev-{version}.json"),
            predictions_file=str(out / "predictions.json"),
            do_eval_predictions=True,
        )
    )
    assert scores["f1"] == pytest.approx(metrics["f1"])
