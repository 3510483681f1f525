"""Segments: their text is the document's, in order or swapped, and nothing gets lost."""

import numpy as np
import pytest

from albert_tf.data.pretraining.segments import (
    Document,
    SegmentConfig,
    SegmentMaker,
    Segments,
    make_document,
    truncate,
)
from tests.helpers import assert_share

V = 5000
EVERY_PIECE_BEGINS_A_WORD = np.ones(V, bool)


def numbered_document(lengths, first=0):
    """A document whose pieces are `first`, `first` + 1, ..., so that a piece says where it was."""
    ends = np.cumsum(lengths)
    return Document(np.arange(first, first + ends[-1], dtype=np.int32), np.concatenate([[0], ends]))


def random_document(seed=0, sentences=60, longest=30, first=0):
    lengths = np.random.default_rng(seed).integers(1, longest, sentences, endpoint=True)
    return numbered_document(lengths, first)


def segments_of(document, config, seed=0, other=None, word_start=EVERY_PIECE_BEGINS_A_WORD):
    rng = np.random.default_rng(seed)
    return list(SegmentMaker(config, word_start)(document, rng, lambda: other))


def in_order(segments):
    a, b, label = segments
    return (b, a) if label else (a, b)


def is_run(pieces):
    """Whether the pieces follow each other in their document."""
    return bool(np.all(np.diff(pieces) == 1))


@pytest.mark.parametrize("short_seq_prob", [0.0, 0.3, 1.0])
def test_sop_segments_in_order_are_the_document(short_seq_prob):
    # So long that nothing is cut: chunks stop at a short target or at the end.
    document = random_document(longest=9)
    config = SegmentConfig(2000, short_seq_prob=short_seq_prob)
    parts = [part for segments in segments_of(document, config) for part in in_order(segments)]
    assert all(len(part) for part in parts)
    np.testing.assert_array_equal(np.concatenate(parts), document.pieces)


def test_sop_segments_are_cut_from_consecutive_text():
    config = SegmentConfig(41)
    for seed in range(20):
        last = -1
        for segments in segments_of(random_document(seed), config, seed):
            a, b = in_order(segments)
            assert is_run(a)
            assert is_run(b)
            assert last < a[0]
            assert a[-1] < b[0]
            assert 2 <= len(a) + len(b) <= config.max_tokens == 38
            last = b[-1]


@pytest.mark.parametrize(("words", "expected"), [([0, 4, 7], {4, 7}), ([], set(range(1, 9)))])
def test_a_single_sentence_is_split_where_a_word_begins_or_else_anywhere(words, expected):
    document, word_start = numbered_document([9]), np.zeros(V, bool)
    word_start[words] = True
    places = set()
    for seed in range(90):
        (segments,) = segments_of(document, SegmentConfig(64), seed, word_start=word_start)
        a, b = in_order(segments)
        np.testing.assert_array_equal(np.concatenate([a, b]), document.pieces)
        places.add(int(b[0]))
    assert places == expected


def test_a_sentence_that_fills_a_short_target_is_joined_with_its_neighbour():
    document, config = numbered_document([20, 21]), SegmentConfig(64, short_seq_prob=1.0)
    for seed in range(20):
        (segments,) = segments_of(document, config, seed)
        assert list(map(len, in_order(segments))) == [20, 21]


def test_a_last_sentence_of_one_piece_stays_with_its_neighbour():
    document = numbered_document([30, 31, 1])
    pairs = segments_of(document, SegmentConfig(66, short_seq_prob=0.0))
    assert len(pairs) == 1
    assert sum(map(len, pairs[0][:2])) == 62


def test_long_sentences_become_parts():
    document = make_document([[7] * 3, [8] * 25, [9]], max_tokens=10)
    assert list(document.offsets) == [0, 3, 13, 23, 28, 29]
    assert document.pieces.tolist() == [7] * 3 + [8] * 25 + [9]
    assert document.pieces.dtype == np.int32
    # One that fills a sequence is split between its segments, too.
    pairs = segments_of(make_document([range(100)], 25), SegmentConfig(28, short_seq_prob=0.0))
    parts = [part for segments in pairs for part in in_order(segments)]
    assert len(pairs) == 4
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(100))


def test_nsp_takes_what_follows_or_text_of_another_document():
    document, other = random_document(longest=9), random_document(1, first=2000)
    config = SegmentConfig(41, "nsp", short_seq_prob=0.0)
    labels = []
    for seed in range(40):
        for a, b, label in segments_of(document, config, seed, other):
            assert is_run(a)
            assert is_run(b)
            assert a[-1] < 2000
            assert (b[0] >= 2000) == label
            labels.append(label)
    assert_share(sum(labels), len(labels), 0.5)


def test_nsp_keeps_unused_sentences_for_the_next_group():
    document, other = random_document(longest=9), random_document(1, first=2000)
    for seed in range(9):
        used = []
        for a, b, label in segments_of(document, SegmentConfig(4000, "nsp"), seed, other):
            used += [a] if label else [a, b]
        np.testing.assert_array_equal(np.concatenate(used), document.pieces)


def test_none_has_one_segment_with_label_0():
    document = random_document()
    config = SegmentConfig(41, "none", short_seq_prob=0.0)
    for segments in segments_of(document, config):
        assert segments.b is None
        assert segments.label == 0
        assert is_run(segments.a)
        assert len(segments.a) <= config.max_tokens == 39
    uncut = SegmentConfig(4000, "none")
    texts = [segments.a for segments in segments_of(document, uncut)]
    np.testing.assert_array_equal(np.concatenate(texts), document.pieces)


def test_a_share_of_the_sequences_aims_at_a_shorter_length():
    document = numbered_document([1] * 3000)
    config = SegmentConfig(41, short_seq_prob=0.1)
    lengths = [
        len(one.a) + len(one.b) for seed in range(20) for one in segments_of(document, config, seed)
    ]
    targets = range(2, config.max_tokens + 1)
    full = 0.9 + 0.1 / len(targets)
    assert_share(lengths.count(config.max_tokens), len(lengths), full)
    assert set(lengths) == set(targets)


@pytest.mark.parametrize("max_tokens", [2, 7, 10])
def test_truncation_takes_from_the_longer_segment_and_from_the_second_on_a_tie(max_tokens):
    rng = np.random.default_rng(0)
    for a_length in range(1, 16):
        for b_length in range(1, 16):
            a, b = a_length, b_length
            while a + b > max_tokens:
                a, b = (a - 1, b) if a > b else (a, b - 1)
            segments = Segments(np.arange(a_length), np.arange(b_length), 1)
            cut = truncate(segments, max_tokens, rng)
            assert (len(cut.a), len(cut.b), cut.label) == (a, b, 1)
            assert is_run(cut.a)
            assert is_run(cut.b)


def test_truncation_takes_from_both_ends():
    rng = np.random.default_rng(0)
    segments = Segments(np.arange(50), np.arange(3), 0)
    fronts = [int(truncate(segments, 43, rng).a[0]) for _ in range(2000)]
    assert set(fronts) <= set(range(11))
    assert_share(sum(fronts), 2000 * 10, 0.5)
