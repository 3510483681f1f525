"""Masking: masked pieces can be restored, words are masked whole, and the shares are the paper's."""

import types

import numpy as np
import pytest

from albert_tf.data.pretraining.masking import (
    Masker,
    MaskingConfig,
    WordBounds,
    choose_ngrams,
    find_boundaries,
)
from albert_tf.data.pretraining.record_batches import (
    Records,
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.data.pretraining.record_files import count_records
from albert_tf.data.records import unmasked_record, write_records
from tests.helpers import assert_share

CLS, SEP, MASK = 2, 3, 4
V = 97
VOCABULARY = types.SimpleNamespace(
    vocabulary_file="vocab.txt",
    vocab_size=V,
    cls_id=CLS,
    sep_id=SEP,
    mask_id=MASK,
    word_start=np.arange(V) % 3 != 0,  # every third piece continues a word
    ordinary_ids=np.arange(5, V, dtype=np.int32),
)
BOUNDARIES = find_boundaries(VOCABULARY)


def sequence(rng, a=40, b=30):
    """[CLS] A [SEP] B [SEP] of random ordinary pieces, the first of B within a word."""
    first, second = rng.choice(VOCABULARY.ordinary_ids, a), rng.choice(VOCABULARY.ordinary_ids, b)
    second[0] = 33
    return np.concatenate([[CLS], first, [SEP], second, [SEP]]).astype(np.int32)


def masked_sequences(config, count=200, seed=0):
    rng = np.random.default_rng(seed)
    masker = Masker(VOCABULARY, config)
    for _ in range(count):
        ids = sequence(rng)
        yield ids, masker(ids, BOUNDARIES[ids], rng)


def words_of(ids, **config):
    return Masker(VOCABULARY, MaskingConfig(20, **config)).find_words(ids, BOUNDARIES[ids])


@pytest.mark.parametrize(("most", "goal"), [(20, 11), (7, 7)])
def test_whole_words_are_masked_and_can_be_restored(most, goal):
    for ids, masked in masked_sequences(MaskingConfig(most)):
        assert len(masked.ids) == goal
        assert np.all(np.diff(masked.positions) > 0)
        assert not np.isin(ids[masked.positions], [CLS, SEP]).any()
        shown = masked.input_ids[masked.positions]
        assert np.isin(shown[shown != MASK], VOCABULARY.ordinary_ids).all()
        is_chosen = np.isin(np.arange(len(ids)), masked.positions)
        for start, end in zip(*words_of(ids), strict=True):
            assert is_chosen[start:end].all() or not is_chosen[start:end].any()
        restored = masked.input_ids.copy()
        restored[masked.positions] = masked.ids
        np.testing.assert_array_equal(restored, ids)
        assert masked.input_ids.dtype == masked.ids.dtype == np.int32


@pytest.mark.parametrize(
    ("length", "most", "share", "expected"),
    [(128, 20, 0.15, 19), (512, 77, 0.15, 77), (512, 9, 0.15, 9), (5, 2, 0.15, 1), (30, 9, 0.1, 3)],
)
def test_the_goal_is_a_share_of_the_sequence(length, most, share, expected):
    assert MaskingConfig(most, share).num_predictions(length) == expected


def test_words_cover_the_text_and_begin_where_pieces_say():
    ids = np.array([CLS, 6, 7, 9, 8, SEP, 9, 10, 12, 15, SEP], np.int32)
    words = words_of(ids)
    assert words.starts.tolist() == [1, 2, 4, 6, 7]  # 6 and 9 begin segments within a word
    assert words.ends.tolist() == [2, 4, 5, 7, 10]
    assert BOUNDARIES[ids].astype(int).tolist() == [1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1]
    pieces = words_of(ids, do_whole_word_mask=False)
    assert pieces.starts.tolist() == [1, 2, 3, 4, 6, 7, 8, 9]
    assert (pieces.ends == pieces.starts + 1).all()


def test_no_ngram_crosses_a_segment_and_none_overlap():
    rng = np.random.default_rng(0)
    config = MaskingConfig(60, masked_lm_prob=0.8, ngram=5, favor_shorter_ngram=False)
    for _ in range(200):
        words = words_of(sequence(rng))
        ngrams = choose_ngrams(words, 60, config, rng)
        assert max(last - first for first, last in ngrams) > 1
        for first, last in ngrams:
            inner = words.starts[first + 1 : last], words.ends[first : last - 1]
            np.testing.assert_array_equal(*inner)
        chosen = [word for first, last in ngrams for word in range(first, last)]
        assert len(chosen) == len(set(chosen))


# With shorter ones favoured: test_instances.py, by the original's counts.
def test_longer_ngrams_can_be_favoured():
    rng = np.random.default_rng(0)
    config = MaskingConfig(20, favor_shorter_ngram=False)
    starts = np.arange(1, 1001)
    words = WordBounds(starts, starts + 1)
    # The first n-gram of a draw is neither shortened nor left out.
    ngrams = [choose_ngrams(words, 3, config, rng)[0] for _ in range(3000)]
    lengths = [last - first for first, last in ngrams if last < 998]
    for n, weight in ((1, 2), (2, 3), (3, 6)):
        assert_share(lengths.count(n), len(lengths), weight / 11)


S, M = 83, 7


def unmasked_batch(count=10):
    """Padded sequences of different lengths, as they are in records."""
    batch = {
        name: np.zeros((count, S), np.int32)
        for name in ("input_ids", "input_mask", "segment_ids", "token_boundary")
    }
    rng = np.random.default_rng(1)
    for row in range(count):
        ids = sequence(rng, a=int(rng.integers(1, 50)))
        batch["input_ids"][row, : len(ids)] = ids
        batch["input_mask"][row, : len(ids)] = 1
        batch["token_boundary"][row, : len(ids)] = BOUNDARIES[ids]
    return batch | {"next_sentence_labels": np.arange(count)[:, np.newaxis] % 2}


@pytest.mark.parametrize(
    "config",
    [MaskingConfig(M), MaskingConfig(S + 9, 0.8), MaskingConfig(M, do_whole_word_mask=False)],
)
def test_a_batch_is_its_rows_masked_one_by_one(config):
    batch, rng = unmasked_batch(), np.random.default_rng(3)
    masker = Masker(VOCABULARY, config)
    masked = masker.mask_batch(batch, np.random.default_rng(3))
    for row, length in enumerate(batch["input_mask"].sum(axis=1)):
        ids = batch["input_ids"][row, :length]
        expected = masker(ids, BOUNDARIES[ids], rng)
        count = len(expected.ids)
        for name, values in (
            ("masked_lm_positions", expected.positions),
            ("masked_lm_ids", expected.ids),
            ("masked_lm_weights", np.ones(count)),
        ):
            padding = config.max_predictions_per_seq - count
            np.testing.assert_array_equal(masked[name][row], np.pad(values, (0, padding)))
        padded = np.pad(expected.input_ids, (0, S - length))
        np.testing.assert_array_equal(masked["input_ids"][row], padded)


@pytest.fixture
def records(tmp_path):
    batch, spec = unmasked_batch(), unmasked_record(S)
    write_records(str(tmp_path / "records"), spec.serialize_batch(batch))
    files = count_records([str(tmp_path / "records")], spec)
    return Records(files, spec, Masker(VOCABULARY, MaskingConfig(M)))


def training(records, count, start_step=0):
    """Returns the ids that the model sees, int32 (count, 5, S)."""
    dataset = pretraining_batches(records, 5, 3, 7, start_step)
    assert dataset.element_spec["input_ids"].shape == (5, S)
    for name in ("positions", "ids", "weights"):
        assert dataset.element_spec[f"masked_lm_{name}"].shape == (5, M)
    return np.stack([batch["input_ids"] for batch in dataset.take(count).as_numpy_iterator()])


def test_masks_are_new_in_each_pass_and_the_same_in_a_resumed_run(records):
    shown = training(records, 8)
    assert len({tuple(row) for row in shown.reshape(-1, S).tolist()}) == 40  # four passes
    np.testing.assert_array_equal(training(records, 3, start_step=5), shown[5:])


def test_every_evaluation_sees_the_same_masks(records):
    dataset = pretraining_evaluation_batches(records, 4, seed=7)
    first, second = (np.concatenate([batch["input_ids"] for batch in dataset]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first == MASK).any()
