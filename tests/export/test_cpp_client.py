"""The C++ client refuses mistakes with one line; test_agreement.py compares its numbers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.export.cpp_client import needs_compiler

pytestmark = [pytest.mark.slow, needs_compiler]


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
