"""Windows come back from disk as they were made, whoever wrote them."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pipeline import (
    evaluation_batches,
    restore_order,
    training_batches,
)
from albert_tf.data.squad import window_records as squad_records
from albert_tf.data.squad.conventions import WindowConfig
from albert_tf.data.squad.questions import Answer, SquadExample
from albert_tf.data.squad.window_arrays import read_features, read_windows
from albert_tf.data.squad.window_records import name_shards, squad_record, write_windows
from albert_tf.data.squad.windows import WindowMaker
from albert_tf.errors import InputError
from albert_tf.layers import make_p_mask
from tests.data.squad_file import WordTokenizer

RULE = WindowConfig(max_seq_length=13, doc_stride=4, max_query_length=3)


def make_examples(count):
    """Five questions a passage, of 0 to 30 words; some impossible, some without a known answer."""
    examples = []
    for index in range(count):
        number = index // 5
        context = " ".join(f"w{number}-{word}" for word in range(number * 7 % 31))
        answers = (Answer(context.split()[-1], context.rfind("w")),) if context else ()
        examples.append(
            SquadExample(
                id=str(index),
                question=f"which word is number {index} ?",
                context=context,
                answers=answers if index % 3 == 1 else (),
                is_impossible=index % 3 == 0,
            )
        )
    return examples


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(squad_records, "_EXAMPLES_PER_SHARD", 11)
    monkeypatch.setattr(squad_records, "_SHARDS_PER_WORKER", 1)


def write(folder, examples, with_offsets=True, num_workers=1):
    pathlib.Path(folder).mkdir(exist_ok=True)
    shards = name_shards(f"{folder}/dev", len(examples))
    write_windows(examples, WordTokenizer(), RULE, with_offsets, shards, num_workers)
    return shards


def test_windows_survive_writing_and_reading(tmp_path, small_shards):
    examples = make_examples(57)
    shards = write(tmp_path, examples)
    assert [pathlib.Path(path).name for path in shards][-1] == "dev-00005-of-00006.tfrecord"
    made = list(WindowMaker(WordTokenizer(), RULE)(examples))
    read = read_windows(shards, RULE.max_seq_length)
    features = read.features
    assert len(features) == len(made) > 100
    assert features.lengths.tolist() == [len(window.input_ids) for window in made]
    assert features.first_lengths.tolist() == [window.question_length for window in made]
    assert read.example_indices.tolist() == [window.example_index for window in made]
    assert read.unique_ids.tolist() == list(range(1_000_000_000, 1_000_000_000 + len(made)))
    assert read.token_is_max_context.dtype == bool
    for name, received in {
        "input_ids": features.input_ids,
        "token_starts": read.token_starts,
        "token_ends": read.token_ends,
        "token_is_max_context": read.token_is_max_context,
    }.items():
        expected = np.concatenate([getattr(window, name) for window in made])
        np.testing.assert_array_equal(received, expected)
    assert {values.dtype for values in features.labels.values()} == {np.dtype(np.int32)}
    labels = np.stack(list(features.labels.values()), axis=1)
    assert labels.tolist() == [list(window[-3:]) for window in made]
    assert {tuple(row) for row in labels.tolist()} > {(0, 0, 1), (-1, -1, 0)}


def test_training_reads_records_of_either_kind(tmp_path, small_shards):
    examples = make_examples(31)
    with_offsets = read_features(write(tmp_path / "a", examples), RULE.max_seq_length)
    without = read_features(write(tmp_path / "b", examples, False), RULE.max_seq_length)
    tf.nest.map_structure(np.testing.assert_array_equal, vars(with_offsets), vars(without))


def test_any_number_of_workers_writes_the_same_bytes(tmp_path, small_shards):
    examples = make_examples(57)
    contents = []
    for num_workers in (1, 2):
        shards = write(tmp_path / str(num_workers), examples, num_workers=num_workers)
        contents.append([pathlib.Path(path).read_bytes() for path in shards])
    assert contents[0] == contents[1]
    assert len(set(contents[0])) == 6


def test_existing_shards_are_kept(tmp_path, small_shards):
    examples = make_examples(57)
    shards = write(tmp_path, examples)
    pathlib.Path(shards[2]).write_bytes(b"complete")
    pathlib.Path(shards[3]).unlink()
    write(tmp_path, examples)
    assert pathlib.Path(shards[2]).read_bytes() == b"complete"
    assert pathlib.Path(shards[3]).exists()


def test_few_examples_need_one_shard():
    assert name_shards("out/train", 0) == ["out/train-00000-of-00001.tfrecord"]
    assert len(name_shards("out/train", 130_319)) == 64


def test_examples_without_windows_write_no_records(tmp_path):
    shards = write(tmp_path, make_examples(4))
    assert len(read_windows(shards, RULE.max_seq_length).features) == 0


def test_other_records_are_refused(tmp_path):
    shards = write(tmp_path, make_examples(20), with_offsets=False)
    message = r"dev-00000-of-00001.tfrecord, record 1: has no feature 'example_indices'"
    with pytest.raises(InputError, match=message):
        read_windows(shards, RULE.max_seq_length)
    with pytest.raises(InputError, match=r"'input_ids' has length 13, expected 14"):
        read_features(shards, 14)


def test_feature_names_are_the_originals():
    names = [feature.name for feature in squad_record(8, with_offsets=False).features]
    assert names == [
        *("input_ids", "input_mask", "segment_ids"),
        *("start_positions", "end_positions", "is_impossible"),
    ]


# Batches


def test_training_batches_have_labels(tmp_path):
    features = read_features(write(tmp_path, make_examples(57)), RULE.max_seq_length)
    dataset = training_batches(features, 8, seed=5)
    assert dataset.element_spec["start_positions"] == tf.TensorSpec((8,), tf.int32)
    for batch in dataset.take(20).as_numpy_iterator():
        allowed = make_p_mask(batch["segment_ids"]).numpy() == 0
        for name in ("start_positions", "end_positions"):
            known = batch[name] >= 0
            assert allowed[known, batch[name][known]].all()
        assert (batch["start_positions"][batch["is_impossible"] == 1] == 0).all()
        assert batch["input_ids"].shape[1] <= RULE.max_seq_length


def test_prediction_batches_match_their_passages(tmp_path):
    """A stand-in for a model's output, the first character of each token, comes back with its window."""
    windows = read_windows(write(tmp_path, make_examples(57)), RULE.max_seq_length)
    dataset, order = evaluation_batches(windows.features, 7)
    first, rows = 0, []
    for batch in dataset.as_numpy_iterator():
        count, length = batch["input_ids"].shape
        passages = windows.passages(order[first : first + count], length)
        first += count
        assert {array.shape[0] for array in vars(passages).values()} == {count}
        is_passage = passages.token_ends > 0
        segments = batch["segment_ids"]
        assert (is_passage.sum(axis=1) == segments.sum(axis=1) - 1).all()
        assert (segments[is_passage] == 1).all()
        assert not is_passage[batch["input_mask"] == 0].any()
        assert not passages.token_is_max_context[~is_passage].any()
        rows += passages.token_starts.max(axis=1).tolist()
    restored = restore_order(np.array(rows), order)
    ends = np.cumsum(windows.features.lengths)
    expected = [part.max() for part in np.split(windows.token_starts, ends[:-1])]
    assert restored.tolist() == expected
