"""Masks made in the graph are those of the Python masker: equal draws give equal n-grams."""

import itertools
import json
import math
import types

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from albert_tf.data.pretraining.batches import (
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.data.pretraining.corpus import CorpusConfig
from albert_tf.data.pretraining.graph_masking import (
    DynamicMasker,
    WordsOfBatch,
    choose_ngrams,
    find_vocabulary_fault,
)
from albert_tf.data.pretraining.instances import InstanceMaker, PretrainingDataConfig
from albert_tf.data.pretraining.masking import Masker, MaskingConfig, find_boundaries
from albert_tf.data.pretraining.masking import choose_ngrams as choose_ngrams_in_python
from albert_tf.data.pretraining.record_order import StreamedOrder
from albert_tf.data.pretraining.segments import SegmentConfig, make_document
from albert_tf.data.record_files import RecordFiles
from albert_tf.data.record_spec import unmasked_record
from albert_tf.data.record_writing import write_records
from albert_tf.tokenization import AlbertTokenizer
from tests.helpers import shared_path

PAD, CLS, SEP, MASK = 0, 2, 3, 4
V, S, M = 97, 41, 7
VOCABULARY = types.SimpleNamespace(
    vocabulary_file="vocab.txt",
    vocab_size=V,
    cls_id=CLS,
    sep_id=SEP,
    mask_id=MASK,
    word_start=np.arange(V) % 3 != 0,  # every third piece continues a word
    ordinary_ids=np.arange(5, V, dtype=np.int32),
)
CONFIGS = [
    MaskingConfig(M),
    MaskingConfig(30, masked_lm_prob=0.8, ngram=5, favor_shorter_ngram=False),
    MaskingConfig(M, ngram=1, do_whole_word_mask=False),
    MaskingConfig(S + 9, masked_lm_prob=0.8),  # more predictions than a sequence has pieces
]


def random_sequence(rng, words_of=VOCABULARY.ordinary_ids):
    """[CLS] A [SEP] or [CLS] A [SEP] B [SEP] of a random length, without padding."""
    length = int(rng.integers(5, S + 1))
    ids = rng.choice(words_of, length).astype(np.int32)
    ids[0] = CLS
    ids[-1] = SEP
    if rng.random() < 0.8:
        ids[rng.integers(2, length - 2)] = SEP
    return ids


def make_batch(sequences, length=S):
    """Pads sequences as records are padded; `row` is a feature that masking knows nothing of."""
    batch = {
        name: np.zeros((len(sequences), length), np.int32)
        for name in ("input_ids", "input_mask", "segment_ids", "token_boundary")
    }
    for row, ids in enumerate(sequences):
        first_sep = np.flatnonzero(ids == SEP)[0]
        batch["input_ids"][row, : len(ids)] = ids
        batch["input_mask"][row, : len(ids)] = 1
        batch["segment_ids"][row, first_sep + 1 : len(ids)] = 1
        batch["token_boundary"][row, : len(ids)] = find_boundaries(VOCABULARY)[ids]
    return {**batch, "next_sentence_labels": np.arange(len(sequences))[:, None] % 2}


def random_batch(count=50, seed=0):
    rng = np.random.default_rng(seed)
    return make_batch([random_sequence(rng) for _ in range(count)])


def mask(batch, config=CONFIGS[0], seed=(5, 0)):
    tensors = {name: tf.constant(array) for name, array in batch.items()}
    masked = tf.function(DynamicMasker(VOCABULARY, config))(tensors, tf.constant(seed, tf.int64))
    return {name: tensor.numpy() for name, tensor in masked.items()}


def is_chosen(masked):
    """Returns which pieces are to be predicted, bool (B, S)."""
    chosen = np.zeros(masked["input_ids"].shape, bool)
    rows, columns = np.nonzero(masked["masked_lm_weights"])
    chosen[rows, masked["masked_lm_positions"][rows, columns]] = True
    return chosen


# The same draws give the same n-grams


class FixedDraws:
    """A generator whose draws are those of one row of the batch."""

    def __init__(self, order_draw, length_draw):
        self._order = np.argsort(-order_draw, kind="stable")
        self.permutation = lambda count: self._order
        self.random = lambda count: length_draw[self._order]


def words_in_rows(words_of_rows):
    """Returns the words of each row, as the Python masker finds them, side by side."""
    sizes, segments = np.zeros((2, len(words_of_rows), S), np.int32)
    for row, words in enumerate(words_of_rows):
        count = len(words.starts)
        sizes[row, :count] = words.ends - words.starts
        touches = words.starts[1:] == words.ends[:-1]
        segments[row, 1:count] = np.cumsum(~touches)
    return WordsOfBatch(tf.zeros((len(words_of_rows), S), tf.int32), sizes, segments)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("share_of_word_starts", [0.2, 0.9])
def test_equal_draws_choose_the_words_that_python_chooses(config, share_of_word_starts):
    rng = np.random.default_rng(7)
    starts, continuations = np.arange(1, V, 3)[2:], np.arange(0, V, 3)[2:]
    many = np.concatenate([np.repeat(starts, 10), np.repeat(continuations, 10)])
    weights = np.repeat([share_of_word_starts, 1 - share_of_word_starts], len(many) // 2)
    pieces = rng.choice(many, 1000, p=weights / weights.sum())
    masker = Masker(VOCABULARY, config)
    sequences = [random_sequence(rng, pieces) for _ in range(300)]
    words_of_rows = [masker.find_words(ids) for ids in sequences]
    goals = np.array([config.num_predictions(len(ids)) for ids in sequences], np.int32)
    order_draw, length_draw = rng.random((2, len(sequences), S), np.float32)

    received = choose_ngrams(words_in_rows(words_of_rows), goals, config, order_draw, length_draw)

    for row, words in enumerate(words_of_rows):
        count = len(words.starts)
        draws = FixedDraws(order_draw[row, :count], length_draw[row, :count])
        expected = np.zeros(S, bool)
        for first, last in choose_ngrams_in_python(words, int(goals[row]), config, draws):
            expected[first:last] = True
        np.testing.assert_array_equal(received[row], expected)


# What a masked batch holds


@pytest.mark.parametrize("config", CONFIGS)
def test_unmasking_gives_the_batch_back(config):
    batch = random_batch()
    masked = mask(batch, config)
    chosen = is_chosen(masked)
    restored = masked["input_ids"].copy()
    restored[chosen] = masked["masked_lm_ids"][masked["masked_lm_weights"] == 1]
    np.testing.assert_array_equal(restored, batch["input_ids"])
    assert (masked["input_ids"] != batch["input_ids"]).any()
    for name in ("input_mask", "segment_ids", "token_boundary", "next_sentence_labels"):
        np.testing.assert_array_equal(masked[name], batch[name])


def test_shapes_and_types_are_those_of_a_record_with_masks():
    masked = mask(random_batch())
    for name, dtype in (("positions", np.int32), ("ids", np.int32), ("weights", np.float32)):
        assert masked[f"masked_lm_{name}"].shape == (50, M)
        assert masked[f"masked_lm_{name}"].dtype == dtype
    assert masked["input_ids"].dtype == np.int32


@pytest.mark.parametrize("config", CONFIGS)
def test_positions_increase_and_zeros_follow(config):
    masked = mask(random_batch(), config)
    for row, count in enumerate(masked["masked_lm_weights"].sum(axis=1).astype(int)):
        assert masked["masked_lm_weights"][row, :count].all()
        assert (np.diff(masked["masked_lm_positions"][row, :count]) > 0).all()
        for name in ("positions", "ids", "weights"):
            assert not masked[f"masked_lm_{name}"][row, count:].any()


@pytest.mark.parametrize("config", CONFIGS)
def test_words_of_each_segment_are_masked_whole_and_special_pieces_never(config):
    batch = random_batch(200)
    chosen = is_chosen(mask(batch, config))
    masker = Masker(VOCABULARY, config)
    assert not chosen[(batch["input_mask"] == 0) | (batch["input_ids"] <= MASK)].any()
    for row, length in enumerate(batch["input_mask"].sum(axis=1)):
        for start, end in zip(*masker.find_words(batch["input_ids"][row, :length]), strict=True):
            assert chosen[row, start:end].all() or not chosen[row, start:end].any()


def test_each_sequence_has_its_own_goal():
    sequences = [np.full(length, 7, np.int32) for length in range(5, S + 1)]  # words of one piece
    for ids in sequences:
        ids[[0, -1]] = CLS, SEP
    for config in (MaskingConfig(M), MaskingConfig(3, masked_lm_prob=0.5), MaskingConfig(60, 0.5)):
        received = mask(make_batch(sequences), config)["masked_lm_weights"].sum(axis=1)
        expected = [config.num_predictions(len(ids)) for ids in sequences]
        assert received.tolist() == [
            min(goal, len(ids) - 2) for goal, ids in zip(expected, sequences, strict=True)
        ]


def test_too_large_words_and_texts_without_words_stay():
    one_word = np.array([CLS, 7, 9, 9, 9, 9, 9, 9, SEP], np.int32)
    no_word = np.array([CLS, SEP], np.int32)
    batch = make_batch([one_word, no_word])
    masked = mask(batch)
    assert masked["masked_lm_weights"].sum() == 0
    np.testing.assert_array_equal(masked["input_ids"], batch["input_ids"])


def test_more_predictions_than_pieces_are_padded():
    assert mask(random_batch(3), MaskingConfig(S + 5))["masked_lm_positions"].shape == (3, S + 5)


def test_masks_in_a_dataset_of_unknown_batch_size():
    dataset = tf.data.Dataset.from_tensor_slices(random_batch(10)).batch(4)
    masked = dataset.map(lambda batch: DynamicMasker(VOCABULARY, CONFIGS[0])(batch, (1, 2)))
    assert masked.element_spec["masked_lm_ids"] == tf.TensorSpec((None, M), tf.int32)
    assert [len(batch["input_ids"]) for batch in masked] == [4, 4, 2]


# Distributions


def masked_both_ways(sequence, count, config):
    """Returns what `count` copies of a sequence become here, and what Python makes of them."""
    batch = make_batch([sequence] * count)
    ours = mask(batch, config)
    rng = np.random.default_rng(3)
    masker = Masker(VOCABULARY, config)
    reference_ids, reference_chosen = batch["input_ids"].copy(), np.zeros((count, S), bool)
    for row in range(count):
        masked = masker(sequence, rng)
        reference_ids[row, : len(sequence)] = masked.input_ids
        reference_chosen[row, masked.positions] = True
    return (is_chosen(ours), ours["input_ids"]), (reference_chosen, reference_ids)


def chi_square(*counts):
    """Returns the p-value of the hypothesis that all rows of counts come from one distribution."""
    table = np.array(counts)
    return scipy.stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


@pytest.mark.parametrize("config", CONFIGS[:2])
def test_positions_and_runs_have_the_distribution_of_the_python_masker(config):
    sequence = make_batch([random_sequence(np.random.default_rng(2))])["input_ids"][0]
    sequence = sequence[sequence != PAD]
    assert len(sequence) > 25
    (ours, _), (reference, _) = masked_both_ways(sequence, 6000, config)
    # The pieces of a sequence are not independent, so each position has a table of its own.
    for at in np.flatnonzero(reference.any(axis=0)):
        p = chi_square(
            *([np.sum(chosen[:, at]), np.sum(~chosen[:, at])] for chosen in (ours, reference))
        )
        assert p > 1e-4, at
    # So has each length of the run of chosen pieces that a sequence begins with.
    first_runs = [
        np.bincount(first_run_lengths(chosen), minlength=S) for chosen in (ours, reference)
    ]
    common = np.sum(first_runs, axis=0) >= 20
    assert common.sum() > 3
    assert chi_square(*(counts[common] for counts in first_runs)) > 1e-3


def first_run_lengths(chosen):
    """Returns how many chosen pieces stand together where a row's first one is, int (B,)."""
    begins = chosen.argmax(axis=1)
    is_after = np.arange(S) >= begins[:, None]
    return np.where(is_after & ~chosen, np.arange(S), S).min(axis=1) - begins


def test_what_is_shown_is_80_10_10_and_any_ordinary_piece():
    sequence = np.full(S, 7, np.int32)
    sequence[[0, -1]] = CLS, SEP
    (ours, shown), (reference, reference_shown) = masked_both_ways(
        sequence, 3000, MaskingConfig(39, masked_lm_prob=0.9)
    )
    counts = np.bincount(shown[ours], minlength=V)
    assert counts[: VOCABULARY.ordinary_ids[0]].tolist() == [0, 0, 0, 0, counts[MASK]]
    assert chi_square(counts, np.bincount(reference_shown[reference], minlength=V)) > 1e-3
    share = np.array([counts[MASK], counts[7], counts.sum() - counts[MASK] - counts[7]])
    same = 1 / len(VOCABULARY.ordinary_ids)  # another piece is the same one by chance
    expected = counts.sum() * np.array([0.8, 0.1 + 0.1 * same, 0.1 - 0.1 * same])
    assert scipy.stats.chisquare(share, expected).pvalue > 1e-3


# The rows of the reference statistics that are about masks, with the tolerance that is allowed on top
# of the sampling error.
GOLDEN_ROWS = {
    "masked_fraction_of_tokens": 0.0005,
    "shown_as_mask": 0.003,
    "shown_unchanged": 0.003,
    "shown_as_other": 0.003,
    "reached_goal_fraction": 0.0,
    "boundary_fraction_of_tokens": 0.0005,
}
SEEDS = 5


@pytest.mark.parametrize("length", [128, 512])
def test_statistics_are_those_of_the_original(length):
    golden = json.loads(shared_path(f"golden/pretraining_data/stats_{length}.json").read_text())
    model = shared_path("data/sentencepiece/30k-clean.model")
    tokenizer = AlbertTokenizer(str(model), lower_case=True)
    batch = unmasked_instances(tokenizer, length)
    config = MaskingConfig(golden["flags"]["max_predictions_per_seq"])
    masker = tf.function(DynamicMasker(tokenizer, config))
    ours = [measure(batch, masker(batch, tf.constant((seed, 0))), config) for seed in range(SEEDS)]
    for row, allowed in GOLDEN_ROWS.items():
        mean, deviation, _, _ = golden["aggregate_mean_sd_min_max"][row]
        received = np.mean([one[row] for one in ours])
        tolerance = 4 * deviation * math.sqrt(1 / len(golden["seeds"]) + 1 / SEEDS) + allowed
        assert received == pytest.approx(mean, abs=tolerance), row


def unmasked_instances(tokenizer, length):
    """Returns the instances of the reference corpus, one copy, as one batch."""
    corpus = json.loads(shared_path("golden/pretraining_data/corpus.json").read_text())
    segments = SegmentConfig(length)
    documents = [
        make_document([ids for ids in tokenizer.encode_batch(lines) if ids], segments.max_tokens)
        for lines in corpus["documents"]
    ]
    config = PretrainingDataConfig(CorpusConfig(), segments, None, seed=0, dupe_factor=1)
    maker = InstanceMaker(tokenizer, config)
    rng = np.random.default_rng(0)
    instances = itertools.chain.from_iterable(
        maker(documents, index, rng) for index in range(len(documents))
    )
    serialized = tf.constant(maker.spec.serialize_batch(maker.pad(list(instances))))
    return unmasked_record(length).parse(serialized)


def measure(batch, masked, config):
    chosen = is_chosen({name: tensor.numpy() for name, tensor in masked.items()})
    before, after = batch["input_ids"].numpy()[chosen], masked["input_ids"].numpy()[chosen]
    lengths = batch["input_mask"].numpy().sum(axis=1)
    as_mask, unchanged = np.mean(after == MASK), np.mean(after == before)
    return {
        "masked_fraction_of_tokens": chosen.sum() / lengths.sum(),
        "shown_as_mask": as_mask,
        "shown_unchanged": unchanged,
        "shown_as_other": 1 - as_mask - unchanged,
        "reached_goal_fraction": np.mean(
            chosen.sum(axis=1) == [config.num_predictions(length) for length in lengths]
        ),
        "boundary_fraction_of_tokens": batch["token_boundary"].numpy().sum() / lengths.sum(),
    }


# Randomness


def test_the_seed_decides_the_masks():
    batch = random_batch()
    first, again, other_run, other_step = (
        mask(batch, seed=seed)["input_ids"] for seed in ((5, 3), (5, 3), (6, 3), (5, 4))
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other_run).any()
    assert (first != other_step).any()
    assert (other_run != other_step).any()


def test_equal_sequences_of_a_batch_get_different_masks():
    masked = mask(make_batch([np.array([CLS, *range(7, 37), SEP], np.int32)] * 20))
    assert len({tuple(row) for row in masked["input_ids"].tolist()}) > 15


@pytest.fixture(scope="module")
def record_file(tmp_path_factory):
    """Ten unmasked records; the first piece of a sequence is its number, 50 to 59."""
    spec = unmasked_record(S)
    sequences = [np.array([CLS, 50 + row, *range(7, 37), SEP], np.int32) for row in range(10)]
    batch = make_batch(sequences)
    path = str(tmp_path_factory.mktemp("records") / "unmasked.tfrecord")
    rows = [{name: array[row] for name, array in batch.items()} for row in range(10)]
    write_records(path, [spec.serialize(row) for row in rows])
    return path


def training(path, count, start_step=0):
    dataset = pretraining_batches(
        StreamedOrder(RecordFiles([path]), batch_size=5, shuffle_buffer=3, seed=7),
        unmasked_record(S).parse,
        start_step=start_step,
        mask=DynamicMasker(VOCABULARY, CONFIGS[0]),
    )
    return [batch["input_ids"].numpy() for batch in dataset.take(count)]


def test_each_pass_sees_other_masks(record_file):
    rows = np.concatenate(training(record_file, 8))  # four passes over ten records
    assert len({tuple(row) for row in rows.tolist()}) == 40


def test_resumed_run_sees_the_masks_of_an_uninterrupted_one(record_file):
    np.testing.assert_array_equal(
        training(record_file, 6, start_step=3), training(record_file, 9)[3:]
    )


def test_every_evaluation_sees_the_same_masks(record_file):
    dataset = pretraining_evaluation_batches(
        RecordFiles([record_file]),
        unmasked_record(S).parse,
        4,
        7,
        DynamicMasker(VOCABULARY, CONFIGS[0]),
    )
    first, second = (np.concatenate([batch["input_ids"] for batch in dataset]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first == MASK).any(axis=1).all()


# The vocabulary


def test_records_of_this_vocabulary_have_no_fault():
    batch = random_batch(20)
    for row in range(20):
        record = {name: array[row] for name, array in batch.items()}
        assert find_vocabulary_fault(record, VOCABULARY) is None


def test_another_vocabulary_shows_in_the_opening_piece_or_in_the_words():
    record = {name: array[0] for name, array in random_batch(1).items()}
    other = types.SimpleNamespace(**{**vars(VOCABULARY), "cls_id": 11})
    fault = find_vocabulary_fault(record, other)
    assert fault == "begins with [2], but [CLS] is 11 in vocab.txt"
    other = types.SimpleNamespace(**{**vars(VOCABULARY), "word_start": np.arange(V) % 3 != 1})
    fault = find_vocabulary_fault(record, other)
    assert fault.startswith("token_boundary of id ")
    assert fault.endswith("by vocab.txt")
    empty = {name: array * 0 for name, array in record.items()}
    assert find_vocabulary_fault(empty, VOCABULARY) == "begins with [], but [CLS] is 2 in vocab.txt"
