"""Text models find the answers and the labelled spans that the Python road finds."""

import os

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.kinds.registry import read_kind
from albert_tf.tasks.loaded import Loaded
from tests.export.kinds import OF_NAMES, QUESTIONS, TO_TAG, WORDS
from tests.export.runtimes import run_loaded
from tests.export.strategies import SHORT_TEXTS
from tests.helpers import slow_except

SPANS = ("simple_spans", "conditional_spans")


def ask(paths, *pairs):
    """Returns the text model's answers to pairs of a question and a context."""
    questions, contexts = zip(*pairs, strict=True)
    return run_loaded(paths["text"], {"question": questions, "context": contexts})


@pytest.mark.parametrize("kind", slow_except(SPANS, "conditional_spans"))
def test_answers_are_those_of_python(kind, exported_kind, tokenizer):
    model, paths = exported_kind(kind)
    rng = np.random.default_rng(7)
    pairs = list(QUESTIONS)
    for count in (1, 2, 7, 8, 9, 13, 14, 15, 40, *rng.integers(1, 70, 12)):
        pairs.append((" ".join(["who?"] * rng.integers(9)), " ".join(rng.choice(WORDS, count))))
    received = ask(paths, *pairs)
    python = Loaded(OF_NAMES[kind], model, tokenizer, tf.distribute.get_strategy())
    expected = python.predict(*map(list, zip(*pairs, strict=True)))
    assert [answer.decode() for answer in received["answer"]] == expected.answer
    assert sum(map(bool, expected.answer)) > 15
    np.testing.assert_array_equal(received["start"], expected.start)
    np.testing.assert_array_equal(received["end"], expected.end)
    np.testing.assert_allclose(received["null_score"], expected.null_odds, rtol=1e-5, atol=1e-4)


def test_threshold_decides_what_is_unanswered(exported_kind):
    _, paths = exported_kind("conditional_spans")
    kind = OF_NAMES["conditional_spans"]
    outputs = ask(paths, *(("who?", "the man ran over " * count) for count in range(1, 8)))
    is_above = outputs["null_score"] > kind.null_score_diff_threshold
    assert 0 < is_above.sum() < 7
    np.testing.assert_array_equal(outputs["answer"] == b"", is_above)
    assert not outputs["end"][is_above].any()
    assert outputs["score"].all()
    for path in paths.values():
        assert read_kind(os.path.join(path, "assets")) == kind


def assert_answered(paths, *pairs):
    outputs = ask(paths, *pairs)
    places = zip(outputs["answer"], outputs["start"], outputs["end"], strict=True)
    for (_, context), (text, start, end) in zip(pairs, places, strict=True):
        assert context.decode(errors="replace")[start:end] == text.decode() == text.decode().strip()
    assert np.isfinite(outputs["score"]).all()


def test_any_bytes_are_answered(exported_kind):
    _, paths = exported_kind("conditional_spans")

    @settings(deadline=None, max_examples=20)
    @given(st.lists(st.tuples(SHORT_TEXTS, SHORT_TEXTS), min_size=1, max_size=3))
    def check(pairs):
        assert_answered(paths, *pairs)

    check()
    strange = [b"\xff\xfe", b"a\x00b", b"", "🙂‍↔️".encode(), b"the \xff cat"]
    assert_answered(paths, *zip(strange[::-1], strange, strict=True))
    # Thousands of windows.
    words = np.random.default_rng(3).choice(WORDS, 9000)
    assert_answered(paths, (b"who?", " ".join(words).encode()), (b"", b"sea"))


def decode(text):
    """Decodes bytes as TensorFlow does, whose number of U+FFFD for malformed UTF-8 is its own."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8").numpy().decode()


def test_labelled_spans_of_any_bytes_are_those_of_python(exported_kind, tokenizer):
    model, paths = exported_kind("token_classifier")
    kind, strategy = OF_NAMES["token_classifier"], tf.distribute.get_strategy()
    python = Loaded(kind, model, tokenizer, strategy)

    def check(texts):
        """Compares the spans of texts, bytes, in characters and bytes; returns their number."""
        outputs = run_loaded(paths["text"], {"text": texts})
        counts, places = outputs.pop("count"), ("start", "end", "start_byte", "end_byte")
        expected = python.predict([decode(text) for text in texts])
        for row, (spans, text) in enumerate(zip(expected, texts, strict=True)):
            of_row = {name: values[row] for name, values in outputs.items()}
            assert counts[row] == len(spans)
            assert not any(values[len(spans) :].any() for values in of_row.values())
            decoded = decode(text)
            for number, span in enumerate(spans):
                assert of_row["label"][number].decode() == span.label
                assert of_row["score"][number] == pytest.approx(span.score, abs=1e-5)
                start, end, first, after = (of_row[name][number] for name in places)
                assert (start, end) == (span.start, span.end)
                assert decode(text[first:after]) == decoded[start:end]
                assert decoded[start:end] == decoded[start:end].strip() != ""
        return counts.sum()

    assert check([text.encode() for text in TO_TAG]) > 10

    @settings(deadline=None, max_examples=30)
    @given(st.lists(SHORT_TEXTS, min_size=1, max_size=3))
    def check_any(texts):
        check(texts)

    check_any()
