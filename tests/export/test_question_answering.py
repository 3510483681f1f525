import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.export import export
from albert_tf.kinds.registry import read_kind
from tests.export.kinds import OF_NAMES, QUESTIONS, WORDS
from tests.export.runtimes import load
from tests.export.strategies import SHORT_TEXTS
from tests.helpers import slow_except


def load_answers(path):
    return load(path).signatures["serving_default"]


@pytest.fixture(scope="module")
def answer(exported_kind):
    """The text model of a simple head."""
    return load_answers(exported_kind("simple_spans")[1]["text"])


def ask(answer, *pairs):
    questions, contexts = zip(*pairs, strict=True)
    outputs = answer(question=tf.constant(questions), context=tf.constant(contexts))
    return {name: value.numpy() for name, value in outputs.items()}


def test_threshold_decides_what_is_unanswered(exported_kind, tokenizer, tmp_path):
    model, paths = exported_kind("conditional_spans")
    pairs = [("who?", "the man ran over " * count) for count in range(1, 8)]
    outputs = ask(load_answers(paths["text"]), *pairs)
    low, high = np.sort(outputs["null_score"])[[2, 3]]
    threshold = float(low + high) / 2
    kind = OF_NAMES["conditional_spans"]
    kind = dataclasses.replace(kind, null_score_diff_threshold=threshold)
    paths = export(model, kind, tokenizer, str(tmp_path))
    with_threshold = ask(load_answers(paths["text"]), *pairs)
    kept = outputs["null_score"] <= threshold
    np.testing.assert_array_equal(with_threshold["answer"], np.where(kept, outputs["answer"], b""))
    np.testing.assert_array_equal(with_threshold["end"], np.where(kept, outputs["end"], 0))
    np.testing.assert_array_equal(with_threshold["score"], outputs["score"])
    for path in paths.values():
        assert read_kind(os.path.join(path, "assets")) == kind


def assert_answered(answer, *pairs):
    outputs = ask(answer, *pairs)
    for (_, context), text, start, end in zip(
        pairs, outputs["answer"], outputs["start"], outputs["end"], strict=True
    ):
        assert context.decode(errors="replace")[start:end] == text.decode() == text.decode().strip()
    assert np.isfinite(outputs["score"]).all()
    return outputs


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(SHORT_TEXTS, SHORT_TEXTS), min_size=1, max_size=3))
def test_any_bytes_are_answered(answer, pairs):
    assert_answered(answer, *pairs)


@pytest.mark.parametrize(
    "kind", slow_except(["simple_spans", "conditional_spans"], "conditional_spans")
)
def test_answers_are_parts_of_the_context(kind, exported_kind):
    answer = load_answers(exported_kind(kind)[1]["text"])
    outputs = assert_answered(answer, *((q.encode(), c.encode()) for q, c in QUESTIONS))
    assert outputs["answer"][0]
    assert not any(outputs["answer"][2:4])  # of empty contexts
    strange = [b"\xff\xfe", b"a\x00b", b"", "🙂‍↔️".encode(), b"the \xff cat"]
    assert_answered(answer, *zip(strange[::-1], strange, strict=True))


def test_long_contexts_of_thousands_of_windows(answer):
    words = np.random.default_rng(3).choice(WORDS, 9000)
    assert_answered(answer, (b"who?", " ".join(words).encode()), (b"", b"sea"))
