"""The C++ runtime that TensorFlow Serving is built on gives the Python model's numbers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.export.cpp_client import lines_of_ids, needs_compiler
from tests.export.runtimes import load
from tests.export.samples import LABELS, TEXTS, VOCAB_SIZE, expected_of_texts
from tests.helpers import random_inputs

pytestmark = [pytest.mark.slow, needs_compiler]


def test_ids_model_gives_the_models_numbers(client, exported, model):
    inputs = random_inputs(vocab_size=VOCAB_SIZE)
    answers = client.answers(exported["ids"], lines_of_ids(inputs))
    logits = model(inputs).numpy()
    np.testing.assert_allclose([row["logits"] for row in answers], logits, rtol=0, atol=1e-5)
    assert [row["label"] for row in answers] == [LABELS[index] for index in logits.argmax(axis=1)]


def test_text_model_gives_the_models_numbers(client, exported, model, tokenizer):
    lines = ["\t".join(texts).encode() for texts in TEXTS]
    # More than one batch of the client's.
    answers = client.answers(exported["text"], lines * 20)
    assert len(answers) == 20 * len(TEXTS)
    expected = np.tile(expected_of_texts(model, tokenizer), (20, 1))
    probabilities = [row["probabilities"] for row in answers]
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)


def test_spans_are_lists_of_each_line(client, exported_kind):
    _, paths = exported_kind("token_classifier")
    texts = ["the old man and the SEA", "", "🙂 (cat) naïve"]
    answers = client.answers(paths["text"], [text.encode() for text in texts])
    find = load(paths["text"]).signatures["serving_default"]
    expected = {name: x.numpy() for name, x in find(text=tf.constant(texts)).items()}
    assert any(expected["count"])
    for row, answer in enumerate(answers):
        assert [label.encode() for label in answer.pop("label")] == [*expected["label"][row]]
        for name, values in answer.items():
            np.testing.assert_allclose(values, expected[name][row], rtol=0, atol=1e-5)


def test_embeddings_are_those_of_python(client, exported_kind):
    _, paths = exported_kind("embedder")
    texts = ["the old man and the SEA", "", "🙂 (cat) naïve"]
    answers = client.answers(paths["text"], [text.encode() for text in texts])
    embed = load(paths["text"]).signatures["serving_default"]
    expected = embed(text_a=tf.constant(texts))["embedding"]
    np.testing.assert_allclose([row["embedding"] for row in answers], expected, rtol=0, atol=1e-5)


def test_other_bytes_than_text_are_answered(client, exported):
    texts = [b"\xff\xfe", b"a\x00b", b"", b"wow " * 250_000, "🙂‍↔️ שלום".encode(), b"\xed\xa0\x80"]
    lines = [b"\t".join([text, text]) for text in texts]
    answers = client.answers(exported["text"], lines)
    probabilities = np.array([row["probabilities"] for row in answers], np.float32)
    np.testing.assert_allclose(probabilities.sum(axis=1), np.ones(len(texts)), rtol=1e-6)


def test_mistakes_are_one_line(client, exported):
    received = "INVALID_ARGUMENT: received 3 columns; expected 2: text_a, text_b"
    assert client.error(exported["text"], [b"a\tb\tc"], client.operators) == received
    received = "INVALID_ARGUMENT: received 'cat'; expected a token id"
    assert client.error(exported["ids"], [b"2 cat"]) == received
    assert client.error("/nowhere", [b"2"]).startswith("NOT_FOUND: Could not find SavedModel")


def test_model_without_the_signature(client, tmp_path):
    module = tf.Module()
    module.answer = tf.function(lambda x: x, input_signature=[tf.TensorSpec((None,), tf.int32)])
    tf.saved_model.save(module, str(tmp_path), signatures={"answer": module.answer})
    expected = f"NOT_FOUND: {tmp_path} has no signature 'serving_default'"
    assert client.error(tmp_path, [b"2"]) == expected


def test_text_model_without_its_operators(client, exported):
    error = client.error(exported["text"], [b"cat"])
    assert error.startswith("NOT_FOUND: Op type not registered 'SentencepieceOp'")
