import itertools

import numpy as np
import pytest

from albert_tf.evaluation.squad_spans import (
    PassageWindows,
    concatenate_spans,
    conditional_spans,
    simple_spans,
)

WINDOWS, LENGTH, QUERY = 5, 13, 3


@pytest.fixture
def windows():
    """Windows of three examples; [CLS] and a question of two tokens, then tokens of three characters."""
    rng = np.random.default_rng(1)
    starts = np.zeros((WINDOWS, LENGTH), np.int32)
    starts[:, QUERY:] = 3 * np.arange(LENGTH - QUERY)
    ends = np.zeros_like(starts)
    ends[:, QUERY:] = starts[:, QUERY:] + 2
    ends[-1, -4:] = starts[-1, -4:] = 0  # padding
    return PassageWindows(
        unique_ids=np.array([70, 71, 72, 73, 74]),
        example_indices=np.array([0, 0, 1, 2, 2], np.int32),
        token_starts=starts,
        token_ends=ends,
        token_is_max_context=rng.integers(0, 2, starts.shape, np.int32),
    )


def simple_outputs(seed=0):
    rng = np.random.default_rng(seed)
    # Few different values, so that there are ties.
    return {
        name: rng.integers(-3, 4, (WINDOWS, LENGTH)).astype(np.float32)
        for name in ("start_logits", "end_logits")
    }


def conditional_outputs(seed=0, starts=4, ends=3):
    rng = np.random.default_rng(seed)

    def positions(count):
        return np.stack([rng.permutation(LENGTH)[:count] for _ in range(WINDOWS)])

    return {
        "start_top_log_probs": -rng.random((WINDOWS, starts), np.float32),
        "start_top_index": positions(starts),
        "end_top_log_probs": -rng.random((WINDOWS, starts * ends), np.float32),
        "end_top_index": np.hstack([positions(ends) for _ in range(starts)]),
        "cls_logits": rng.normal(size=WINDOWS).astype(np.float32),
    }


def as_set(spans):
    return {
        (*map(int, key), start, end)
        for *key, start, end in zip(
            *(spans.examples, spans.windows, spans.starts, spans.ends),
            *(spans.start_offsets, spans.end_offsets, spans.start_scores, spans.end_scores),
            strict=True,
        )
    }


def expected_spans(windows, pairs, max_answer_length):
    """Judges each (window, start, end, start score, end score) alone."""
    kept = set()
    for window, start, end, *scores in pairs:
        begins, stops = windows.token_starts[window], windows.token_ends[window]
        inside = stops[start] > 0 and stops[end] > 0
        best = windows.token_is_max_context[window, start]
        if inside and best and start <= end < start + max_answer_length:
            key = (windows.example_indices[window], windows.unique_ids[window], start, end)
            kept.add((*map(int, key), int(begins[start]), int(stops[end]), *map(float, scores)))
    return kept


@pytest.mark.parametrize(("n_best_size", "max_answer_length"), [(13, 13), (4, 5), (5, 1), (50, 3)])
def test_simple_head_pairs_its_best_starts_and_ends(windows, n_best_size, max_answer_length):
    outputs = simple_outputs()
    pairs = []
    for window in range(WINDOWS):
        ranked = [
            sorted(range(LENGTH), key=lambda position, row=row: (-row[position], position))
            for row in (outputs["start_logits"][window], outputs["end_logits"][window])
        ]
        for start, end in itertools.product(*(positions[:n_best_size] for positions in ranked)):
            scores = outputs["start_logits"][window, start], outputs["end_logits"][window, end]
            pairs.append((window, start, end, *scores))
    spans = simple_spans(windows, outputs, n_best_size, max_answer_length)
    expected = expected_spans(windows, pairs, max_answer_length)
    assert expected
    assert as_set(spans) == expected
    assert len(spans.starts) == len(expected)


@pytest.mark.parametrize("max_answer_length", [1, 4, 13])
def test_conditional_head_pairs_each_start_with_its_ends(windows, max_answer_length):
    outputs = conditional_outputs()
    pairs = [
        (
            *(window, outputs["start_top_index"][window, i]),
            outputs["end_top_index"][window, 3 * i + j],
            outputs["start_top_log_probs"][window, i],
            outputs["end_top_log_probs"][window, 3 * i + j],
        )
        for window, i, j in itertools.product(range(WINDOWS), range(4), range(3))
    ]
    spans = conditional_spans(windows, outputs, max_answer_length)
    expected = expected_spans(windows, pairs, max_answer_length)
    assert expected
    assert as_set(spans) == expected


def test_null_scores(windows):
    simple, conditional = simple_outputs(), conditional_outputs()
    spans = simple_spans(windows, simple, 3, 5)
    np.testing.assert_array_equal(
        spans.null_scores, simple["start_logits"][:, 0] + simple["end_logits"][:, 0]
    )
    assert spans.null_is_span
    spans = conditional_spans(windows, conditional, 5)
    np.testing.assert_array_equal(spans.null_scores, conditional["cls_logits"])
    np.testing.assert_array_equal(spans.null_examples, windows.example_indices)
    assert not spans.null_is_span


def rows(windows, which):
    return PassageWindows(*(values[which] for values in vars(windows).values()))


def test_batches_give_the_spans_of_all(windows):
    outputs = simple_outputs()
    parts = [
        simple_spans(
            rows(windows, which), {name: values[which] for name, values in outputs.items()}, 4, 5
        )
        for which in (slice(0, 2), slice(2, 5))
    ]
    joined, whole = concatenate_spans(parts), simple_spans(windows, outputs, 4, 5)
    for name, values in vars(whole).items():
        np.testing.assert_array_equal(getattr(joined, name), values)


def test_no_valid_span_gives_none(windows):
    hidden = PassageWindows(
        **{**vars(windows), "token_is_max_context": np.zeros((WINDOWS, LENGTH))}
    )
    spans = simple_spans(hidden, simple_outputs(), 6, 5)
    assert len(spans.starts) == 0
    assert len(spans.null_scores) == WINDOWS
