"""Text becomes instances: their layout, their repeatability, and the original's statistics."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining.corpus import Chunk, CorpusConfig
from albert_tf.data.pretraining.instances import (
    ChunkMaker,
    PretrainingDataConfig,
    PretrainingDataStats,
)
from albert_tf.data.pretraining.masking import (
    Masker,
    MaskingConfig,
    choose_ngrams,
    find_boundaries,
)
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.data.records import pretraining_record, unmasked_record
from albert_tf.tokenization import AlbertTokenizer
from tests.data.pretraining.corpora import WORDS, make_tokenizer
from tests.helpers import shared_path

S, M = 41, 7
_MASKING, _SPEC = MaskingConfig(M), pretraining_record(S, M)
PAD, UNK, CLS, SEP, MASK = range(5)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """That of the words `aa` to `jj`, with endings."""
    return make_tokenizer(tmp_path_factory.mktemp("vocabulary"), ["##s", "##ed", "."])


def random_text(seed=0, documents=9):
    """Documents of sentences of random words, a third of them with an ending."""
    rng = np.random.default_rng(seed)

    def sentence():
        count = rng.integers(1, 15)
        return " ".join(rng.choice(WORDS) + rng.choice(["", "", "s", "ed"]) for _ in range(count))

    def document():
        return "\n".join(sentence() + " ." for _ in range(rng.integers(3, 30)))

    return "\n\n".join(document() for _ in range(documents))


def chunk_of(text, first_document=0):
    documents = [document.split("\n") for document in text.split("\n\n")]
    return Chunk(first_document, documents)


def make_maker(tokenizer, seed=3, dupe_factor=2, objective="sop", masking=_MASKING):
    parts = (CorpusConfig(), SegmentConfig(S, objective), masking)
    return ChunkMaker(tokenizer, PretrainingDataConfig(*parts, seed, dupe_factor))


def make(chunk, tokenizer, **config):
    """Returns the records of a chunk, by their keys, and its stats."""
    stats = PretrainingDataStats()
    keyed = sorted(make_maker(tokenizer, **config)(chunk, stats))
    return [record for _, record in keyed], stats


def parse(records, spec=_SPEC):
    parsed = spec.parse(tf.constant(records))
    return {name: tensor.numpy() for name, tensor in parsed.items()}


def unmask(instances):
    """Returns the ids before masking, int32 (N, S), and which are predicted, bool (N, S)."""
    rows, numbers = np.nonzero(instances["masked_lm_weights"])
    positions = instances["masked_lm_positions"][rows, numbers]
    ids, is_predicted = instances["input_ids"].copy(), np.zeros_like(instances["input_ids"], bool)
    ids[rows, positions] = instances["masked_lm_ids"][rows, numbers]
    is_predicted[rows, positions] = True
    return ids, is_predicted


@pytest.fixture(scope="module")
def chunk():
    return chunk_of(random_text())


def test_the_text_is_counted(tokenizer):
    chunk = chunk_of("aa bbs\nzz cc\n\n\u200b\ndd\n\nee\n\nff gg hh")
    _, stats = make(chunk, tokenizer)
    assert (stats.documents, stats.sentences, stats.pieces, stats.unknown_pieces) == (2, 3, 8, 1)
    assert (stats.skipped_documents, stats.skipped_sentences) == (2, 1)
    assert stats.means()["unknown_share"] == 1 / 8


@pytest.mark.parametrize(("objective", "documents"), [("sop", 0), ("none", 2), ("nsp", 2)])
def test_documents_too_small_for_the_objective(tokenizer, objective, documents):
    _, stats = make(chunk_of("aa\n\nbb"), tokenizer, objective=objective)
    assert stats.documents == documents
    assert (stats.instances > 0) == (documents > 0)
    _, stats = make(chunk_of("aa bb cc"), tokenizer, objective="nsp")
    assert (stats.documents, stats.instances) == (1, 0)
    records, _ = make(chunk_of("aa bb cc"), tokenizer, dupe_factor=1)
    assert parse(records)["input_mask"].sum(axis=1).tolist() == [6]


def test_long_lines_are_cut_for_the_tokenizer_where_it_changes_nothing(tokenizer):
    words = WORDS * 700
    text = " ".join(words)
    assert len(text) > 100_000
    _, stats = make(chunk_of(text), tokenizer, dupe_factor=1)
    assert (stats.sentences, stats.pieces, stats.unknown_pieces) == (1, len(words), 0)
    _, stats = make(chunk_of("".join(words)), tokenizer, dupe_factor=1)
    assert stats.sentences == 1
    assert stats.unknown_pieces == stats.pieces > 10


def test_instances_without_masks_and_a_second_loss_are_whole(chunk, tokenizer):
    records, stats = make(chunk, tokenizer, masking=None, objective="none")
    assert stats.predictions == stats.means()["swapped_share"] == 0
    example = tf.train.Example.FromString(records[0])
    assert set(example.features.feature) == {each.name for each in unmasked_record(S).features}
    instances = parse(records, unmasked_record(S))
    ids = instances["input_ids"]
    assert not (ids == MASK).any()
    begins = tokenizer.word_start[ids] | np.isin(ids, [CLS, SEP])
    begins &= instances["input_mask"] == 1
    np.testing.assert_array_equal(instances["token_boundary"], begins)
    assert instances["segment_ids"].sum() == instances["next_sentence_labels"].sum() == 0


def test_instances_have_the_layout_of_the_original(chunk, tokenizer):
    records, _ = make(chunk, tokenizer)
    instances = parse(records)
    lengths = instances["input_mask"].sum(axis=1)
    assert lengths.max() == S
    assert lengths.min() < S
    all_ids, _ = unmask(instances)
    for row, (ids, length) in enumerate(zip(all_ids, lengths, strict=True)):
        instance = {name: array[row] for name, array in instances.items()}
        first_sep, last_sep = np.flatnonzero(ids == SEP)
        assert ids[0] == CLS
        assert last_sep == length - 1
        assert np.all(ids[length:] == PAD)
        assert not np.isin(ids[:length], [PAD, MASK]).any()
        at = np.arange(S)
        np.testing.assert_array_equal(instance["input_mask"], at < length)
        np.testing.assert_array_equal(instance["segment_ids"], (first_sep < at) & (at < length))
        begins = tokenizer.word_start[ids] | np.isin(ids, [CLS, SEP])
        np.testing.assert_array_equal(instance["token_boundary"], begins & (at < length))
        count = np.count_nonzero(instance["masked_lm_weights"])
        assert np.all(np.diff(instance["masked_lm_positions"][:count]) > 0)
        for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
            assert np.all(instance[name][count:] == 0)


def test_nsp_takes_its_random_text_from_other_documents(tokenizer):
    # Each document has words of its own.
    text = "\n\n".join("\n".join([f"{first}a {first}b {first}c"] * 9) for first in "abcdefghij")
    instances = parse(make(chunk_of(text), tokenizer, objective="nsp")[0])
    ids, _ = unmask(instances)
    owner = (ids - MASK - 1) // 10
    labels = set()
    for row in range(len(ids)):
        is_b = (instances["segment_ids"][row] == 1) & (ids[row] != SEP)
        label = int(instances["next_sentence_labels"][row, 0])
        assert (owner[row, 1] != owner[row, is_b][0]) == label
        labels.add(label)
    assert labels == {0, 1}


def test_stats_say_what_is_in_the_records(chunk, tokenizer):
    records, stats = make(chunk, tokenizer)
    instances = parse(records)
    assert stats.instances == len(records)
    pieces = instances["input_mask"].sum()
    assert stats.means() == pytest.approx(
        {
            "unknown_share": 0,
            "mean_length": pieces / len(records),
            "masked_share": instances["masked_lm_weights"].sum() / pieces,
            "swapped_share": instances["next_sentence_labels"].mean(),
        }
    )
    assert stats.documents == len(chunk.documents)


def test_copies_differ_and_documents_do_not_depend_on_each_other(chunk, tokenizer):
    once, _ = make(chunk, tokenizer, dupe_factor=1)
    twice, _ = make(chunk, tokenizer, dupe_factor=2)
    assert set(once) < set(twice)
    assert len(set(twice)) == len(twice)
    fewer = chunk._replace(documents=chunk.documents[4:], first_document=4)
    assert set(make(fewer, tokenizer, dupe_factor=1)[0]) < set(once)
    assert set(make(chunk, tokenizer, seed=4)[0]).isdisjoint(twice)


# The rows of the reference statistics that no wanted departure touches, with the tolerance that is
# allowed on top of the sampling error.
GOLDEN_ROWS = {
    "ngram_words/1": 0.003,
    "ngram_words/2": 0.003,
    "ngram_words/3": 0.003,
    "mean_pieces_per_ngram": 0.0,
    "masked_fraction_of_tokens": 0.0005,
    "shown_as_mask": 0.003,
    "shown_unchanged": 0.003,
    "shown_as_other": 0.003,
    "reached_goal_fraction": 0.0,
    "boundary_fraction_of_tokens": 0.0005,
    # Of all instances: our label 1 never says that a text is random, a wanted departure.
    "swapped_among_multi_segment": 0.0,
}
SEEDS = 5


def test_statistics_are_those_of_the_original():
    golden = json.loads(shared_path("golden/pretraining_data/stats_128.json").read_text())
    corpus = json.loads(shared_path("golden/pretraining_data/corpus.json").read_text())
    model = shared_path("data/sentencepiece/30k-clean.model")
    tokenizer = AlbertTokenizer(str(model), lower_case=True)
    chunk = Chunk(0, corpus["documents"])
    made = [measure(chunk, tokenizer, seed, golden["flags"]) for seed in range(SEEDS)]
    for name in ("documents", "sentences", "pieces"):
        assert getattr(made[0][0], name) == golden["source"][name]
    for row, allowed in GOLDEN_ROWS.items():
        mean, deviation, _, _ = golden["aggregate_mean_sd_min_max"][row]
        received = np.mean([shares[row] for _, shares in made])
        tolerance = 4 * deviation * math.sqrt(1 / len(golden["seeds"]) + 1 / SEEDS) + allowed
        assert received == pytest.approx(mean, abs=tolerance), row


def measure(chunk, tokenizer, seed, flags):
    """Returns the stats of one seed, and the golden rows of its records and of n-grams of their text."""
    length, masking = flags["max_seq_length"], MaskingConfig(flags["max_predictions_per_seq"])
    parts = (CorpusConfig(), SegmentConfig(length), masking)
    config = PretrainingDataConfig(*parts, seed, flags["dupe_factor"])
    stats = PretrainingDataStats()
    records = [record for _, record in ChunkMaker(tokenizer, config)(chunk, stats)]
    instances = parse(records, pretraining_record(length, masking.max_predictions_per_seq))
    ids, is_predicted = unmask(instances)
    lengths = instances["input_mask"].sum(axis=1).tolist()
    goals = list(map(masking.num_predictions, lengths))
    masker, boundaries = Masker(tokenizer, masking), find_boundaries(tokenizer)
    rng, ngrams = np.random.default_rng(seed), []
    for row, (size, goal) in enumerate(zip(lengths, goals, strict=True)):
        words = masker.find_words(ids[row, :size], boundaries[ids[row, :size]])
        ngrams += [last - first for first, last in choose_ngrams(words, goal, masking, rng)]
    shown = instances["input_ids"][is_predicted]
    as_mask, unchanged = shown == tokenizer.mask_id, shown == ids[is_predicted]
    return stats, {
        **{f"ngram_words/{n}": ngrams.count(n) / len(ngrams) for n in (1, 2, 3)},
        "mean_pieces_per_ngram": len(shown) / len(ngrams),
        "masked_fraction_of_tokens": len(shown) / sum(lengths),
        "shown_as_mask": as_mask.mean(),
        "shown_unchanged": unchanged.mean(),
        "shown_as_other": 1 - as_mask.mean() - unchanged.mean(),
        "reached_goal_fraction": np.mean(is_predicted.sum(axis=1) == goals),
        "boundary_fraction_of_tokens": instances["token_boundary"].sum() / sum(lengths),
        "swapped_among_multi_segment": instances["next_sentence_labels"].mean(),
    }
