"""Whatever bytes come as texts, the exported model answers, or refuses with one clear error."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.export.runtimes import load
from tests.export.strategies import TEXTS, WRITINGS


@pytest.fixture(scope="module")
def answer(exported):
    loaded = load(exported["text"])

    def answer(texts):
        columns = tf.constant(texts, tf.string), tf.constant(texts[::-1], tf.string)
        return loaded.signatures["serving_default"](text_a=columns[0], text_b=columns[1])

    return answer


def assert_finite(outputs, count):
    probabilities = outputs["probabilities"].numpy()
    assert probabilities.shape == (count, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), np.ones(count), rtol=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_any_bytes_are_answered(answer, texts):
    assert_finite(answer(texts), len(texts))


def test_hundreds_of_texts_in_a_batch(answer):
    few = [writing.encode() for writing in WRITINGS]
    outputs = answer(few * 30)
    assert_finite(outputs, len(few) * 30)
    expected = np.tile(answer(few)["probabilities"], (30, 1))
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_any_bytes_are_embedded(exported_kind, texts):
    _, paths = exported_kind("embedder")
    embed = load(paths["text"]).signatures["serving_default"]
    embeddings = embed(text_a=tf.constant(texts, tf.string))["embedding"]
    assert embeddings.shape[0] == len(texts)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), np.ones(len(texts)), rtol=1e-5)


@pytest.mark.parametrize("part", ["wow ", "\0", "e\u0301", " ", "ﷺ", "Σ"])
def test_a_text_of_a_megabyte(answer, part):
    part = part.encode()
    assert_finite(answer([part * (1_000_000 // len(part))]), 1)
