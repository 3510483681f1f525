"""Text becomes instances: their layout, their repeatability, and the original's statistics."""

import collections
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.masking import Masker, MaskingRule, choose_ngrams
from albert_tf.data.pretraining import InstanceMaker, make_records, read_corpus, read_documents
from albert_tf.data.records import pretraining_record, unmasked_record
from albert_tf.data.sentence_order import SegmentRule
from albert_tf.errors import InputError
from albert_tf.progress import Progress
from albert_tf.tokenization import load_tokenizer
from tests.helpers import shared_path

S, M = 41, 7
PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghij"
WORDS = [first + second for first in LETTERS for second in LETTERS]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A WordPiece vocabulary of the words `aa` to `jj`, with endings."""
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join([*SPECIAL, *WORDS, "##s", "##ed", "."]) + "\n")
    return load_tokenizer(None, str(path), lower_case=True)


def random_text(seed=0, documents=9):
    """Documents of sentences of random words, a third of them with an ending."""
    rng = np.random.default_rng(seed)

    def sentence():
        return " ".join(
            rng.choice(WORDS) + rng.choice(["", "", "s", "ed"]) for _ in range(rng.integers(1, 15))
        )

    return "\n\n".join(
        "\n".join(sentence() + " ." for _ in range(rng.integers(3, 30))) for _ in range(documents)
    )


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def read(paths, tokenizer, rule=None):
    with Progress("reading", "documents") as progress:
        return read_corpus(paths, tokenizer, rule or SegmentRule(S), progress)


def make(corpus, tokenizer, seed=3, dupe_factor=2, objective="sop"):
    maker = InstanceMaker(tokenizer, SegmentRule(S, objective), MaskingRule(M))
    with Progress("making", "documents") as progress:
        return make_records(corpus, maker, seed, dupe_factor, progress)


def parse(records):
    parsed = pretraining_record(S, M).parse(tf.constant(records))
    return {name: tensor.numpy() for name, tensor in parsed.items()}


@pytest.fixture(scope="module")
def corpus(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    return read([write(path, random_text())], tokenizer)


def test_blank_lines_and_ends_of_files_end_documents(tmp_path):
    one = write(tmp_path / "one", "\n\na b\nc\n \t\n\nd")
    two = write(tmp_path / "two", "e\n")
    assert list(read_documents([one, two])) == [["a b", "c"], ["d"], ["e"]]


def test_windows_line_ends_and_a_byte_order_mark_are_no_text(tmp_path):
    path = write(tmp_path / "text", b"\xef\xbb\xbf\r\na\r\nb\r\n\r\nc")
    assert list(read_documents([path])) == [["a", "b"], ["c"]]


def test_bytes_that_are_not_utf8_are_named_with_file_and_line(tmp_path):
    path = write(tmp_path / "text", b"a\n\nb\xe9\n")
    with pytest.raises(InputError, match=r"text, line 3: byte 2 is 0xe9"):
        list(read_documents([path]))


@pytest.mark.parametrize("content", [b"", b"\n \r\n\n", b"\xef\xbb\xbf"])
def test_files_without_text_are_named(tmp_path, content):
    paths = [write(tmp_path / "one", content), write(tmp_path / "two", content)]
    with pytest.raises(InputError, match=r"one and 1 more: no text, expected one sentence a line"):
        list(read_documents(paths))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="missing: cannot be read"):
        list(read_documents([str(tmp_path / "missing")]))


def test_the_corpus_is_counted(tokenizer, tmp_path):
    path = write(tmp_path / "text", "aa bbs\nzz cc\n\n\u200b\ndd\n\nee\n\nff gg hh")
    documents, stats = read([path], tokenizer)
    assert [document.offsets.tolist() for document in documents] == [[0, 3, 5], [0, 3]]
    assert (stats.documents, stats.sentences, stats.pieces, stats.unknown_pieces) == (2, 3, 8, 1)
    assert (stats.skipped_documents, stats.skipped_sentences) == (2, 1)
    assert stats.unknown_share == 1 / 8


def test_a_corpus_too_small_for_the_objective_is_named(tokenizer, tmp_path):
    path = write(tmp_path / "text", "aa\n\nbb\n")
    with pytest.raises(InputError, match="at least 2 pieces: received 0, expected 1 or more"):
        read([path], tokenizer)
    assert len(read([path], tokenizer, SegmentRule(S, "nsp")).documents) == 2
    path = write(tmp_path / "single", "aa bb cc\n")
    with pytest.raises(InputError, match="received 1, expected 2 or more for nsp"):
        read([path], tokenizer, SegmentRule(S, "nsp"))


def test_a_document_of_one_sentence_makes_an_instance(tokenizer, tmp_path):
    corpus = read([write(tmp_path / "text", "aa bb cc")], tokenizer)
    records, stats = make(corpus, tokenizer, dupe_factor=1)
    assert stats.instances == 1
    assert parse(records)["input_mask"].sum() == 6


def test_a_line_of_a_megabyte_is_used_to_its_end(tokenizer, tmp_path):
    line = " ".join(WORDS * 3500)
    assert len(line) > 1_000_000
    corpus = read([write(tmp_path / "text", line)], tokenizer)
    rule = SegmentRule(S)
    assert corpus.stats.sentences == 1
    assert corpus.documents[0].num_sentences == math.ceil(350_000 / rule.max_tokens)
    (document,) = corpus.documents
    short = corpus._replace(
        documents=[document._replace(offsets=document.offsets[:30])]
    )  # the rest is the same
    _, stats = make(short, tokenizer, dupe_factor=1)
    text_pieces = stats.instance_pieces - 3 * stats.instances
    assert text_pieces == 29 * rule.max_tokens


def test_instances_have_the_layout_of_the_original(corpus, tokenizer):
    records, _ = make(corpus, tokenizer)
    instances = parse(records)
    lengths = instances["input_mask"].sum(axis=1)
    assert lengths.max() == S
    assert lengths.min() < S
    for row, length in enumerate(lengths):
        instance = {name: array[row] for name, array in instances.items()}
        positions = instance["masked_lm_positions"][instance["masked_lm_weights"] == 1]
        ids = instance["input_ids"].copy()
        ids[positions] = instance["masked_lm_ids"][: len(positions)]
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
        assert np.all(np.diff(positions) > 0)
        padding = slice(len(positions), None)
        for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
            assert np.all(instance[name][padding] == 0)


def test_instances_without_masks_are_whole(corpus, tokenizer):
    maker = InstanceMaker(tokenizer, SegmentRule(S), None)
    assert maker.spec == unmasked_record(S)
    rng = np.random.default_rng(3)
    for instance in maker(corpus.documents, 0, rng):
        ids, mask = instance["input_ids"], instance["input_mask"]
        assert set(instance) == {feature.name for feature in unmasked_record(S).features}
        assert MASK not in ids
        begins = tokenizer.word_start[ids] | np.isin(ids, [CLS, SEP])
        np.testing.assert_array_equal(instance["token_boundary"], begins & (mask == 1))


def test_instances_without_a_second_loss_have_one_segment(corpus, tokenizer):
    records, stats = make(corpus, tokenizer, objective="none")
    instances = parse(records)
    assert instances["segment_ids"].sum() == instances["next_sentence_labels"].sum() == 0
    assert stats.swapped_share == 0


def test_nsp_takes_its_random_text_from_other_documents(tokenizer, tmp_path):
    # Each document has words of its own.
    text = "\n\n".join("\n".join([f"{first}a {first}b {first}c"] * 9) for first in LETTERS)
    corpus = read([write(tmp_path / "text", text)], tokenizer, SegmentRule(S, "nsp"))
    instances = parse(make(corpus, tokenizer, objective="nsp")[0])
    ids = instances["input_ids"].copy()
    for row, positions in enumerate(instances["masked_lm_positions"]):
        real = instances["masked_lm_weights"][row] == 1
        ids[row, positions[real]] = instances["masked_lm_ids"][row][real]
    owner = (ids - len(SPECIAL)) // len(LETTERS)
    labels = set()
    for row in range(len(ids)):
        is_b = (instances["segment_ids"][row] == 1) & (ids[row] != SEP)
        label = int(instances["next_sentence_labels"][row, 0])
        assert (owner[row, 1] != owner[row, is_b][0]) == label
        labels.add(label)
    assert labels == {0, 1}


def test_stats_say_what_is_in_the_records(corpus, tokenizer):
    records, stats = make(corpus, tokenizer)
    instances = parse(records)
    assert stats.instances == len(records)
    assert stats.mean_length == pytest.approx(instances["input_mask"].sum() / len(records))
    assert stats.masked_share == pytest.approx(
        instances["masked_lm_weights"].sum() / instances["input_mask"].sum()
    )
    assert stats.swapped_share == pytest.approx(instances["next_sentence_labels"].mean())
    assert stats.documents == corpus.stats.documents


def test_the_seed_decides_every_byte(corpus, tokenizer):
    assert make(corpus, tokenizer, seed=1)[0] == make(corpus, tokenizer, seed=1)[0]
    assert set(make(corpus, tokenizer, seed=1)[0]).isdisjoint(make(corpus, tokenizer, seed=2)[0])


def test_copies_differ_and_documents_do_not_depend_on_each_other(corpus, tokenizer):
    once, _ = make(corpus, tokenizer, dupe_factor=1)
    twice, _ = make(corpus, tokenizer, dupe_factor=2)
    assert set(once) < set(twice)
    assert len(set(twice)) == len(twice)
    fewer, _ = make(corpus._replace(documents=corpus.documents[:4]), tokenizer, dupe_factor=1)
    assert set(fewer) < set(once)


def test_records_are_shuffled(corpus, tokenizer):
    maker = InstanceMaker(tokenizer, SegmentRule(S), MaskingRule(M))
    records, _ = make(corpus, tokenizer, seed=3, dupe_factor=1)
    in_order = [
        maker.spec.serialize(instance)
        for index in range(len(corpus.documents))
        for instance in maker(
            corpus.documents,
            index,
            np.random.default_rng(np.random.SeedSequence(3, spawn_key=(0, index))),
        )
    ]
    assert records != in_order
    assert sorted(records) == sorted(in_order)


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
    "swapped_among_multi_segment": 0.0,
}
SEEDS = 5


def test_statistics_are_those_of_the_original(tmp_path):
    golden = json.loads(shared_path("golden/pretraining_data/stats_128.json").read_text())
    model = shared_path("data/sentencepiece/30k-clean.model")
    tokenizer = load_tokenizer(str(model), None, lower_case=True)
    documents = json.loads(shared_path("golden/pretraining_data/corpus.json").read_text())
    text = "\n\n".join("\n".join(document) for document in documents["documents"])
    corpus = read([write(tmp_path / "text", text)], tokenizer, SegmentRule(128))
    assert corpus.stats.documents == golden["source"]["documents"]
    assert corpus.stats.sentences == golden["source"]["sentences"]
    assert corpus.stats.pieces == golden["source"]["pieces"]

    ours = [measure(corpus, tokenizer, seed, golden["flags"]) for seed in range(SEEDS)]
    for row, allowed in GOLDEN_ROWS.items():
        mean, deviation, _, _ = golden["aggregate_mean_sd_min_max"][row]
        received = np.mean([one[row] for one in ours])
        tolerance = 4 * deviation * math.sqrt(1 / len(golden["seeds"]) + 1 / SEEDS) + allowed
        assert received == pytest.approx(mean, abs=tolerance), row


def measure(corpus, tokenizer, seed, flags):
    """Returns the statistics of one seed, from the instances and from n-grams of their text."""
    rule = MaskingRule(flags["max_predictions_per_seq"])
    maker = InstanceMaker(tokenizer, SegmentRule(flags["max_seq_length"]), rule)
    masker = Masker(tokenizer, rule)
    counts = collections.Counter()
    rng = np.random.default_rng(seed)
    for index in list(range(len(corpus.documents))) * flags["dupe_factor"]:
        for instance in maker(corpus.documents, index, rng):
            length = int(instance["input_mask"].sum())
            chosen = int(instance["masked_lm_weights"].sum())
            positions = instance["masked_lm_positions"][:chosen]
            ids = instance["input_ids"][:length]
            labels = instance["masked_lm_ids"][:chosen]
            counts["instances"] += 1
            counts["pieces"] += length
            counts["chosen"] += chosen
            counts["reached"] += chosen == rule.num_predictions(length)
            counts["boundaries"] += int(instance["token_boundary"].sum())
            counts["swapped"] += int(instance["next_sentence_labels"][0])
            counts["mask"] += np.count_nonzero(ids[positions] == tokenizer.mask_id)
            counts["unchanged"] += np.count_nonzero(ids[positions] == labels)
            unmasked = ids.copy()
            unmasked[positions] = labels
            words = masker.find_words(unmasked)
            ngrams = choose_ngrams(words, rule.num_predictions(length), rule, rng)
            counts["ngrams"] += len(ngrams)
            counts.update(last - first for first, last in ngrams)
    return {
        **{f"ngram_words/{n}": counts[n] / counts["ngrams"] for n in (1, 2, 3)},
        "mean_pieces_per_ngram": counts["chosen"] / counts["ngrams"],
        "masked_fraction_of_tokens": counts["chosen"] / counts["pieces"],
        "shown_as_mask": counts["mask"] / counts["chosen"],
        "shown_unchanged": counts["unchanged"] / counts["chosen"],
        "shown_as_other": 1 - (counts["mask"] + counts["unchanged"]) / counts["chosen"],
        "reached_goal_fraction": counts["reached"] / counts["instances"],
        "boundary_fraction_of_tokens": counts["boundaries"] / counts["pieces"],
        "swapped_among_multi_segment": counts["swapped"] / counts["instances"],
    }
