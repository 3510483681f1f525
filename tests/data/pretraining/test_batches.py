"""Records become batches in an order that the seed decides."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining.batches import (
    RecordOrder,
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.data.record_files import BadRecords, RecordFiles
from tests.data.test_pipeline import assert_equal_batches, take

SIZES = {"a": 23, "b": 5, "c": 13}


@pytest.fixture
def files(tmp_path):
    """Files whose records contain their names."""
    for name, size in SIZES.items():
        with tf.io.TFRecordWriter(str(tmp_path / name), "GZIP" if name == "b" else "") as writer:
            for number in range(1, size + 1):
                writer.write(f"{tmp_path / name} {number}".encode())
    return RecordFiles([str(tmp_path / name) for name in SIZES])


def take_names(order, count):
    return [
        sorted(record.decode() for record in batch)
        for batch in itertools.islice(order.batches().as_numpy_iterator(), count)
    ]


def flat(by_file):
    return sorted(f"{path} {number}" for path, numbers in by_file.items() for number in numbers)


def test_names_exactly_the_records_of_the_batch(files):
    order = RecordOrder(files, batch_size=4, shuffle_buffer=10, seed=5)
    batches = take_names(order, 25)  # more than two passes over the files
    found = order.names([3, 17, 24])
    assert {number: flat(by_file) for number, by_file in found.items()} == {
        number: batches[number] for number in (3, 17, 24)
    }


def test_names_depend_on_the_seed(files):
    one, other = (RecordOrder(files, 4, 10, seed).names([0]) for seed in (5, 6))
    assert one != other


def test_bad_records_are_in_no_batch_and_have_no_name(files):
    a, _, c = files.paths
    bad = {a: BadRecords(23, {2: "", 7: ""}, False), c: BadRecords(9, {4: ""}, True)}
    order = RecordOrder(RecordFiles(files.paths, bad), batch_size=34, shuffle_buffer=10, seed=5)
    (batch,) = take_names(order, 1)
    kept = ({*range(1, 24)} - {2, 7}, range(1, 6), {*range(1, 10)} - {4})
    named = zip(files.paths, kept, strict=True)
    assert batch == sorted(f"{path} {number}" for path, numbers in named for number in numbers)
    assert flat(order.names([0])[0]) == batch


def parse(serialized):
    return {"number": tf.strings.to_number(serialized, tf.int32)}


@pytest.fixture
def record_files(tmp_path):
    """Files of 23, 5 and 13 records: 0, 1, ..., 40."""
    paths, number = [], itertools.count()
    for index, size in enumerate((23, 5, 13)):
        paths.append(str(tmp_path / f"{index}.tfrecord"))
        compression = "GZIP" if index == 1 else ""  # files of both kinds are read together
        with tf.io.TFRecordWriter(paths[-1], compression) as writer:
            for _ in range(size):
                writer.write(str(next(number)).encode())
    return paths


def test_pretraining_holds_each_record_once_an_epoch(record_files):
    dataset = pretraining_batches(RecordOrder(RecordFiles(record_files), 4, 10, 5), parse)
    assert dataset.element_spec["number"].shape.rank == 1
    read = np.stack([batch["number"] for batch in take(dataset, 41)])
    assert read.shape == (41, 4)
    epochs = read.ravel().reshape(4, 41)  # 41 batches of 4 are 4 epochs of 41
    assert (np.sort(epochs, axis=1) == np.arange(41)).all()
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 4


def test_pretraining_mixes_the_files(record_files):
    dataset = pretraining_batches(RecordOrder(RecordFiles(record_files), 12, 10, 5), parse)
    (batch,) = take(dataset, 1)
    assert len({np.searchsorted([23, 28], number, side="right") for number in batch["number"]}) == 3


def test_pretraining_order_depends_on_the_seed(record_files):
    def read(seed):
        return take(
            pretraining_batches(RecordOrder(RecordFiles(record_files), 4, 10, seed), parse), 30
        )

    first, again, other = read(5), read(5), read(6)
    assert_equal_batches(first, again)
    assert any((first[step]["number"] != other[step]["number"]).any() for step in range(30))


def test_pretraining_start_step_is_skipping(record_files):
    def make(**arguments):
        return pretraining_batches(
            RecordOrder(RecordFiles(record_files), 4, 10, 5), parse, **arguments
        )

    assert_equal_batches(take(make(start_step=17), 20), take(make(), 37)[17:])


def test_pretraining_evaluation_reads_in_order_once(record_files):
    batches = take(pretraining_evaluation_batches(RecordFiles(record_files), parse, 16), 100)
    assert [len(batch["number"]) for batch in batches] == [16, 16, 9]
    assert np.concatenate([batch["number"] for batch in batches]).tolist() == list(range(41))


def test_pretraining_evaluation_in_batches_of_one_size(record_files):
    def parse_row(serialized):
        numbers = tf.strings.to_number(serialized, tf.int32)
        return {"row": 1 + tf.stack([numbers, numbers], axis=1), "number": numbers}

    dataset = pretraining_evaluation_batches(
        RecordFiles(record_files), parse_row, 16, fixed_size=True
    )
    assert dataset.element_spec["row"].shape == (16, 2)
    rows = np.concatenate([batch["row"] for batch in take(dataset, 100)])
    assert rows.tolist() == [[n, n] for n in (*range(1, 42), *[0] * 7)]
