"""The text model of a token classifier finds the spans of the Python road, in characters and bytes."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.batches import make_batch
from albert_tf.data.fine_tuning.tagged_text import TaggedText, encode_tagged
from albert_tf.data.fine_tuning.tags import TagTable
from albert_tf.evaluation.entities import predict_spans
from tests.export.kinds import TAGS, TEXT_WINDOWS, TO_TAG
from tests.export.runtimes import load
from tests.export.strategies import SHORT_TEXTS


@pytest.fixture(scope="module")
def find(exported_kind):
    return load(exported_kind("token_classifier")[1]["text"]).signatures["serving_default"]


@pytest.fixture(scope="module")
def expect(exported_kind, tokenizer):
    """The Python road from texts to spans."""
    model, _ = exported_kind("token_classifier")

    def expect(texts):
        examples = [TaggedText("", text) for text in texts]
        features = encode_tagged(examples, TAGS, tokenizer, TEXT_WINDOWS)
        of_tokens = np.zeros((len(features.input_ids), len(TAGS)), np.float32)
        for window in range(len(features)):
            (logits,) = model(make_batch(features, np.array([window]))).numpy()
            _, tokens = features.tokens_of(np.array([window]), len(logits))
            of_tokens[tokens] = logits[: len(tokens)]
        probabilities = tf.nn.softmax(of_tokens[features.words.tokens]).numpy()
        table = TagTable.from_tags(TAGS)
        return predict_spans(probabilities, features.words, features.word_texts, len(texts), table)

    return expect


def spans_of(outputs):
    """Returns (start, end, label), scores and bytes of the spans of each text."""
    outputs = {name: np.array(values) for name, values in outputs.items()}
    rows = []
    for row, count in enumerate(outputs["count"]):
        of_row = {name: values[row] for name, values in outputs.items() if name != "count"}
        assert not any(values[count:].any() for values in of_row.values())
        rows.append({name: values[:count].tolist() for name, values in of_row.items()})
    return rows


def decode(text):
    """Decodes bytes as TensorFlow does, whose number of U+FFFD for malformed UTF-8 is its own."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8").numpy().decode()


def assert_same(received, expected, texts):
    """Compares with the Python road; texts are bytes."""
    assert len(received) == len(expected) == len(texts)
    for row, spans, text in zip(received, expected, texts, strict=True):
        labels = [label.decode() for label in row["label"]]
        ours = list(zip(row["start"], row["end"], labels, strict=True))
        assert ours == [tuple(span[:3]) for span in spans]
        np.testing.assert_allclose(row["score"], [span.score for span in spans], atol=1e-5)
        decoded = decode(text)
        for start, end, first, after in zip(
            *(row[name] for name in ("start", "end", "start_byte", "end_byte")), strict=True
        ):
            assert decode(text[first:after]) == decoded[start:end]
            assert decoded[start:end] == decoded[start:end].strip() != ""


def test_spans_of_training_in_characters_and_bytes(find, expect):
    texts = [text.encode() for text in TO_TAG]
    received = spans_of(find(text=tf.constant(texts)))
    assert_same(received, expect(TO_TAG), texts)
    assert sum(len(row["start"]) for row in received) > 10


@settings(deadline=None, max_examples=30)
@given(st.lists(SHORT_TEXTS, min_size=1, max_size=3))
def test_any_bytes_are_answered(find, expect, texts):
    received = spans_of(find(text=tf.constant(texts, tf.string)))
    assert_same(received, expect([decode(text) for text in texts]), texts)
