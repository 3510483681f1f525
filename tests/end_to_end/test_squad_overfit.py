"""A small model learns 50 real questions by heart and answers them when it is served."""

import json

import pytest
import tensorflow as tf

from albert_tf.evaluation.squad_metrics import evaluate_v1
from albert_tf.tasks.fine_tuning.question_answering import QuestionAnsweringOptions, run
from tests.helpers import shared_path, tiny_config

COUNT = 50


def first_questions(path, count):
    """Returns SQuAD's layout with the first answerable questions of a file, one a passage."""
    paragraphs = [
        {**paragraph, "qas": [question]}
        for article in json.loads(path.read_text())["data"]
        for paragraph in article["paragraphs"]
        for question in [q for q in paragraph["qas"] if q["answers"]][:1]
    ]
    return {"version": "1.1", "data": [{"paragraphs": paragraphs[:count]}]}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("head", ["simple", "conditional"])
def test_small_model_learns_real_questions_by_heart(head, tmp_path):
    squad = first_questions(shared_path("data/squad/dev-v2.0-half.json"), COUNT)
    path = tmp_path / "train.json"
    path.write_text(json.dumps(squad))
    config = tiny_config(
        vocab_size=30000,
        embedding_size=64,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        max_position_embeddings=256,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config.to_json_file(str(tmp_path / "albert_config.json"))
    metrics = run(
        QuestionAnsweringOptions(
            train_file=str(path),
            predict_file=str(path),
            albert_config_file=str(tmp_path / "albert_config.json"),
            spm_model_file=str(shared_path("data/sentencepiece/30k-clean.model")),
            output_dir=str(tmp_path / "out"),
            export_dir=str(tmp_path / "exported"),
            do_train=True,
            do_eval=True,
            head=head,
            version_2_with_negative=False,
            max_seq_length=256,
            train_batch_size=10,
            learning_rate=1e-3,
            classifier_dropout=0.0,
            num_train_steps=300,
            save_checkpoints_steps=100,
        )
    )
    print(metrics)
    assert metrics["f1"] >= 95

    asked = [(p["qas"][0], p["context"]) for p in squad["data"][0]["paragraphs"]]
    assert len(asked) == COUNT
    model = tf.saved_model.load(str(tmp_path / "exported" / "text" / "1"))
    outputs = model.signatures["serving_default"](
        question=tf.constant([question["question"] for question, _ in asked]),
        context=tf.constant([context for _, context in asked]),
    )
    served = {
        question["id"]: answer.decode()
        for (question, _), answer in zip(asked, outputs["answer"].numpy(), strict=True)
    }
    golds = {question["id"]: [a["text"] for a in question["answers"]] for question, _ in asked}
    assert evaluate_v1(golds, served)["f1"] >= 95
    assert served == json.loads((tmp_path / "out" / "predictions.json").read_text())
