"""Whatever bytes come as texts, and however many, the exported model answers each on its own."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.export.kinds import KINDS, LABELS, text_columns
from tests.export.runtimes import load, run_loaded
from tests.export.strategies import SHORT_TEXTS, TEXTS
from tests.helpers import slow_except

FAST = ("classifier", "token_classifier", "conditional_spans")


def assert_finite(outputs, count):
    for values in outputs.values():
        assert values.shape[0] == count
        assert values.dtype.kind != "f" or np.isfinite(values).all()


# Spans have tests of their own.
@pytest.mark.parametrize(
    "kind", slow_except(["classifier", "multiple_choice", "embedder"], *FAST, "multiple_choice")
)
def test_any_bytes_are_answered(kind, exported_kind):
    path = exported_kind(kind)[1]["text"]
    texts = SHORT_TEXTS if kind == "multiple_choice" else TEXTS
    options = st.tuples(*[texts] * len(LABELS))
    row = st.tuples(texts, texts, options) if kind == "multiple_choice" else st.tuples(texts, texts)

    @settings(deadline=None, max_examples=30)
    @given(st.lists(row, min_size=1, max_size=4))
    def check(rows):
        assert_finite(run_loaded(path, text_columns(kind, rows)), len(rows))

    check()


@pytest.mark.parametrize("kind", slow_except(KINDS, *FAST))
def test_answers_do_not_depend_on_the_batch(kind, exported_kind):
    path = exported_kind(kind)[1]["text"]
    columns = text_columns(kind)
    together = run_loaded(path, {name: column * 9 for name, column in columns.items()})
    count = len(next(iter(columns.values())))
    for row in range(count):
        one = run_loaded(path, {name: column[row : row + 1] for name, column in columns.items()})
        for name, values in one.items():
            for received in together[name][row::count]:
                if values.ndim > 1:
                    # A text with fewer spans than another has empty ones after them.
                    received, others = np.split(received, [len(values[0])])
                    assert not np.any(others)
                if values.dtype.kind == "f":
                    np.testing.assert_allclose(received, values[0], rtol=0, atol=1e-4)
                else:
                    np.testing.assert_array_equal(received, values[0])


@pytest.mark.parametrize("kind", slow_except(KINDS, "multiple_choice", *FAST))
def test_no_texts_have_no_answers(kind, exported_kind):
    predict = load(exported_kind(kind)[1]["text"]).signatures["serving_default"]
    _, inputs = predict.structured_input_signature
    texts = {name: tf.zeros([0, *spec.shape[1:]], tf.string) for name, spec in inputs.items()}
    assert {outputs.shape[0] for outputs in predict(**texts).values()} == {0}


@pytest.mark.parametrize("kind", ["classifier", "token_classifier"])
@pytest.mark.parametrize("part", ["wow ", "\0", "e\u0301", " ", "ﷺ", "Σ"])
def test_a_long_text(kind, part, exported_kind):
    part = part.encode()
    long = part * ((1_000_000 if kind == "classifier" else 10_000) // len(part))
    assert_finite(run_loaded(exported_kind(kind)[1]["text"], text_columns(kind, [(long, b"")])), 1)
