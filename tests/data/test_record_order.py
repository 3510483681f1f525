import itertools

import pytest
import tensorflow as tf

from albert_tf.data.record_files import BadRecords, RecordFiles
from albert_tf.data.record_order import RecordOrder

SIZES = {"a": 23, "b": 5, "c": 13}


@pytest.fixture
def files(tmp_path):
    """Files whose records say what they are called."""
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


def test_named_are_the_records_that_were_in_the_batch(files):
    order = RecordOrder(files, batch_size=4, shuffle_buffer=10, seed=5)
    batches = take_names(order, 25)  # more than two passes over the files
    found = order.names([3, 17, 24])
    assert {number: flat(by_file) for number, by_file in found.items()} == {
        number: batches[number] for number in (3, 17, 24)
    }


def test_names_depend_on_the_seed(files):
    one, other = (RecordOrder(files, 4, 10, seed).names([0]) for seed in (5, 6))
    assert one != other


def test_what_is_left_out_is_in_no_batch_and_has_no_name(files):
    a, _, c = files.paths
    bad = {a: BadRecords(23, {2: "", 7: ""}, False), c: BadRecords(9, {4: ""}, True)}
    order = RecordOrder(RecordFiles(files.paths, bad), batch_size=34, shuffle_buffer=10, seed=5)
    (batch,) = take_names(order, 1)
    kept = ({*range(1, 24)} - {2, 7}, range(1, 6), {*range(1, 10)} - {4})
    named = zip(files.paths, kept, strict=True)
    assert batch == sorted(f"{path} {number}" for path, numbers in named for number in numbers)
    assert flat(order.names([0])[0]) == batch
