"""The records of a run: found, checked, and named where they are bad."""

import dataclasses
import gzip
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining import record_files
from albert_tf.data.pretraining.masking import Masker, MaskingConfig
from albert_tf.data.pretraining.record_batches import (
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.tasks.pretraining_records import (
    explain_bad_records,
    open_records,
    save_counts,
)
from albert_tf.tokenization import WordPieceTokenizer
from tests.helpers import refused, write_wordpiece
from tests.tasks.language import (
    LENGTH,
    PREDICTIONS,
    config_of,
    make_dynamic_options,
    make_options,
    resolve,
)


def open_both(options):
    records, _ = open_records(resolve(options), config_of(options))
    return list(records.values())


NO_MASKS = "holds records without masks; expected --spm_model_file or --vocab_file"


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (make_options, {"max_seq_length": 32}, "24, expected 32, as --max_seq_length or the"),
        (
            make_options,
            {"max_predictions_per_seq": 5},
            "4, .* 5, as --max_predictions_per_seq, --masked_lm_prob or the first record says",
        ),
        (make_options, {"input_file": ("*.none",)}, "^--input_file: no file matches"),
        (
            make_dynamic_options,
            {"vocab_file": None, "do_train": False, "input_file": ()},
            rf"^--eval_input_file: .*unmasked_dev\.tfrecord {NO_MASKS}",
        ),
        (make_dynamic_options, {"vocab_file": None}, rf"^--input_file: .*tfrecord {NO_MASKS}"),
        (make_dynamic_options, {"max_seq_length": 32}, "'input_ids' has length 24, expected 32"),
        (make_dynamic_options, {"vocab_file": "missing.txt"}, "missing.txt"),
        (
            make_dynamic_options,
            {"input_file": ("train.tfrecord", "unmasked.tfrecord")},
            r"^--input_file: unmasked\.tfrecord holds .*one kind",
        ),
    ],
)
def test_other_records_are_refused(language_data, tmp_path, monkeypatch, make, changes, message):
    monkeypatch.chdir(language_data)
    with refused(message):
        open_both(make(language_data, tmp_path, **changes))


def test_sizes_are_those_of_the_records(language_data, tmp_path):
    given = {"max_seq_length": None, "max_predictions_per_seq": None}
    options = make_options(language_data, tmp_path, **given)
    filled = resolve(options, sizes=True)
    assert filled == resolve(make_options(language_data, tmp_path))
    # Unmasked records have a length alone: 24 * 0.3 = 7.2 pieces.
    options = make_dynamic_options(language_data, tmp_path, **given, masked_lm_prob=0.3)
    filled = resolve(options, sizes=True)
    assert (filled.max_seq_length, filled.max_predictions_per_seq) == (LENGTH, 8)
    # A flag stands.
    options = make_options(language_data, tmp_path, **given | {"max_seq_length": 32})
    filled = resolve(options, sizes=True)
    assert (filled.max_seq_length, filled.max_predictions_per_seq) == (32, PREDICTIONS)


def rewrite(path, to, change):
    """Writes the records of a file with other features."""
    examples = map(tf.train.Example.FromString, tf.data.TFRecordDataset(path).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(to)) as writer:
        for example in examples:
            features = change(dict(example.features.feature))
            writer.write(tf.train.Example(features={"feature": features}).SerializeToString())
    return str(to)


def of_model_garden(features):
    # BERT's records, too, have no boundaries.
    del features["token_boundary"]
    names = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
    return {names.get(name, name): each for name, each in features.items()}


def test_records_of_the_model_garden(language_data, tmp_path):
    options = make_options(language_data, tmp_path, max_seq_length=None)
    config = config_of(options)
    here = open_both(resolve(options, sizes=True, config=config))
    paths = {
        flag: (rewrite(getattr(options, flag)[0], tmp_path / flag, of_model_garden),)
        for flag in ("input_file", "eval_input_file")
    }
    theirs = resolve(dataclasses.replace(options, **paths), sizes=True, config=config)
    assert theirs.max_seq_length == LENGTH
    for ours, other in zip(here, open_both(theirs), strict=True):
        expected, received = (next(iter(pretraining_batches(x, 4, 8, 0))) for x in (ours, other))
        assert expected.keys() == received.keys() > {"input_ids", "segment_ids"}
        for name, values in expected.items():
            np.testing.assert_array_equal(received[name], values)


def first_batch(records):
    return next(iter(pretraining_batches(records, batch_size=4, shuffle_buffer=8, seed=0)))


def assert_same_batches(ours, theirs, without=()):
    """Checks the first batches of records, of which others lack some features."""
    expected, received = first_batch(ours), first_batch(theirs)
    assert expected.keys() - received.keys() == {*without}
    for name, values in received.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


@pytest.mark.parametrize("name", ["train.tfrecord", "records-00000-of-00001.tfrecord.gz"])
def test_records_compressed_with_gzip(language_data, tmp_path, name):
    options = make_options(language_data, tmp_path)
    plain, _ = open_both(options)
    path = tmp_path / name
    path.write_bytes(gzip.compress(pathlib.Path(options.input_file[0]).read_bytes()))
    compressed = dataclasses.replace(options, input_file=(str(path),))
    sizes = resolve(dataclasses.replace(compressed, max_seq_length=None), sizes=True)
    records, _ = open_both(sizes)
    assert [file.count for file in records.files] == [400]
    assert_same_batches(plain, records)
    one_by_one = (pretraining_evaluation_batches(each, 64) for each in (plain, records))
    for expected, received in zip(*one_by_one, strict=True):
        np.testing.assert_array_equal(expected["input_ids"], received["input_ids"])
    stats = tmp_path / "records.stats.json"
    stats.write_text(json.dumps({"vocab_size": 7}))
    both = dataclasses.replace(options, input_file=(str(path), options.input_file[0]))
    if name.endswith(".gz"):  # they belong to compressed shards, too
        with refused("records.stats.json: the records were made with a vocabulary of 7 pieces"):
            open_both(both)
        stats.unlink()
    with refused(f"^--input_file: {path} is compressed, .*train.tfrecord is not; expected"):
        open_both(both)
    path.write_bytes(path.read_bytes()[:-100])
    with refused(f"^{path}: is cut short; expected a complete .gz file"):
        open_both(compressed)


def drop(*names):
    def change(features):
        return {name: each for name, each in features.items() if name not in names}

    return change


@pytest.mark.parametrize(
    ("make", "lacks"),
    [
        (make_options, ["token_boundary"]),  # RoBERTa-like
        (make_dynamic_options, []),
        (make_dynamic_options, ["token_boundary"]),  # ELECTRA's
    ],
)
def test_records_without_sentence_labels(language_data, tmp_path, make, lacks):
    options = make(language_data, tmp_path, sentence_objective="none")
    ours, _ = open_both(options)
    change = drop("next_sentence_labels", *lacks)
    path = rewrite(options.input_file[0], tmp_path / "theirs.tfrecord", change)
    options = dataclasses.replace(options, input_file=(path,))
    theirs, _ = open_both(options)
    # In this language each piece is a word, so the vocabulary finds the boundaries of the records.
    assert_same_batches(ours, theirs, without=lacks if make is make_dynamic_options else ())
    missing = "has no feature 'next_sentence_labels'; --sentence_objective=none needs none"
    with refused(f"^{path}, record 1: {missing}"):
        open_both(dataclasses.replace(options, sentence_objective="sop"))
    if make is make_dynamic_options:
        with refused(NO_MASKS):
            open_both(dataclasses.replace(options, vocab_file=None))


def test_the_vocabulary_says_where_words_begin_if_the_records_do_not(tmp_path):
    write_wordpiece(tmp_path / "vocab.txt", ["a", "##b", "##c"])
    tokenizer = WordPieceTokenizer(str(tmp_path / "vocab.txt"))
    ids = [tokenizer.cls_id, *tokenizer.encode("abc abc abc abc"), tokenizer.sep_id]
    batch = {"input_ids": np.array([ids], np.int32), "input_mask": np.ones((1, 14), np.int32)}
    masker = Masker(tokenizer, MaskingConfig(masked_lm_prob=0.2, ngram=1))
    masked = masker.mask_batch(batch, np.random.default_rng(0))
    first, *others = masked["masked_lm_positions"][0, :3].tolist()
    assert first in (1, 4, 7, 10)
    assert others == [first + 1, first + 2]


@pytest.mark.parametrize(
    "name", ["input_ids", "input_mask", "masked_lm_ids", "masked_lm_positions"]
)
def test_missing_features_have_no_length(language_data, tmp_path, name):
    def without(features):
        del features[name]
        return features

    given = {"max_seq_length": None, "max_predictions_per_seq": None}
    options = make_options(language_data, tmp_path, **given)
    path = rewrite(options.input_file[0], tmp_path / "x", without)
    options = dataclasses.replace(options, input_file=(path,))
    with refused(f"^{path}, record 1: has no feature '{name}'$"):
        open_both(resolve(options, sizes=True))


def test_records_longer_than_the_model_are_refused(language_data, tmp_path):
    options = make_options(language_data, tmp_path, max_seq_length=None)
    config = dataclasses.replace(config_of(options), max_position_embeddings=23)
    with refused(r"^--input_file: the records have 24 tokens; .* 23$"):
        resolve(options, sizes=True, config=config)


def write_stats(path, **stats):
    path.write_text(json.dumps({"counts": {}, **stats}))


A1, B2 = {"vocabulary_sha256": "a1"}, {"vocabulary_sha256": "b2"}
UNCASED, CASED, NSP = (
    {"options": {name: value}}
    for name, value in (
        ("do_lower_case", True),
        ("do_lower_case", False),
        ("sentence_objective", "nsp"),
    )
)


@pytest.mark.parametrize(
    ("stats", "vocab_file", "place", "message"),
    [
        (
            {"a": {"vocab_size": 96}},
            None,
            "input_file: .*a",
            r"a vocabulary of 96 pieces, .*config\.json .* 97",
        ),
        (
            {"a": A1},
            "vocab.txt",
            "input_file: .*a",
            r"another vocabulary than .*vocab\.txt: SHA-256 a1, exp",
        ),
        (
            {"a": A1, "dev": B2},
            None,
            "eval_input_file: .*dev",
            r"another vocabulary than .*a\.stats\.json: .*b2",
        ),
        (
            {"a": UNCASED, "dev": CASED},
            "vocab.txt",
            "eval_input_file: .*dev",
            "do_lower_case False, but .* True$",
        ),
        ({"a": NSP}, None, "input_file: .*a", "sentence_objective nsp, but this run has sop$"),
    ],
)
def test_stats_files_are_compared_with_the_run_and_each_other(
    language_data, tmp_path, monkeypatch, stats, vocab_file, place, message
):
    shards = tuple(f"a-0000{number}-of-00002.tfrecord" for number in range(2))
    for name in (*shards, "dev.tfrecord"):
        shutil.copy(language_data / "dev.tfrecord", tmp_path / name)
    for name, of_records in stats.items():
        write_stats(tmp_path / f"{name}.stats.json", **of_records)
    vocab_file = vocab_file and str(language_data / vocab_file)
    monkeypatch.chdir(tmp_path)
    inputs = {"input_file": shards, "eval_input_file": ("dev.tfrecord",)}
    message = rf"^--{place}\.stats\.json: the records were made with {message}"
    with refused(message):
        open_both(make_options(language_data, tmp_path / "out", vocab_file=vocab_file, **inputs))


def test_unmasked_records_know_their_vocabulary(language_data, tmp_path):
    data = shutil.copytree(language_data, tmp_path / "data")
    sha256 = files.sha256(str(data / "vocab.txt"))
    for name in ("unmasked", "unmasked_dev"):
        of_records = {"vocab_file": "gone/vocab.txt", "do_lower_case": False}
        write_stats(data / f"{name}.stats.json", vocabulary_sha256=sha256, options=of_records)
    options = make_dynamic_options(data, tmp_path / "out", vocab_file=None)
    records, tokenizer = open_records(resolve(options), config_of(options))
    assert all(each.masker for each in records.values())
    assert tokenizer.vocabulary_file == str(data / "vocab.txt")
    assert not tokenizer.lower_case
    # Without stats files the flags say it.
    options = make_dynamic_options(language_data, tmp_path / "out", do_lower_case=False)
    assert not open_records(resolve(options), config_of(options))[1].lower_case


def test_another_vocabulary_is_refused(language_data, tmp_path):
    pieces = (language_data / "vocab.txt").read_text().split()
    vocab_file = tmp_path / "vocab.txt"
    options = make_dynamic_options(language_data, tmp_path, vocab_file=str(vocab_file))
    vocab_file.write_text("\n".join(pieces[:-1]))
    with refused(r"vocab\.txt has 96 pieces; .*vocab_size 97"):
        open_both(options)
    vocab_file.write_text("\n".join(pieces[::-1]))
    with refused(r"record 1: begins with id 2, but \[CLS\] is 94"):
        open_both(options)


def describe(path, count):
    """Writes the stats file of a file of records."""
    counts = {path.name: {"bytes": path.stat().st_size, "records": count}}
    write_stats(path.with_suffix(".stats.json"), shards=counts)


def test_foreign_records_are_counted_once_and_ours_not_at_all(language_data, tmp_path, monkeypatch):
    data = shutil.copytree(language_data, tmp_path / "data")
    options = make_options(data, tmp_path)
    made, _ = open_records(resolve(options), config_of(options))
    save_counts(options, made)
    monkeypatch.setattr(record_files, "scan", None)
    assert open_both(options) == list(made.values())
    (tmp_path / "records.json").unlink()
    for (file,) in (each.files for each in made.values()):
        describe(pathlib.Path(file.path), file.count)
    assert open_both(options) == list(made.values())


def test_other_errors_than_those_of_records_stay_what_they_are(language_data, tmp_path):
    options = make_options(language_data, tmp_path)
    records, _ = open_records(resolve(options), config_of(options))
    with pytest.raises(tf.errors.InvalidArgumentError), explain_bad_records(records):
        tf.reshape(tf.zeros(3), (2, 2))
