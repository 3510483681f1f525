import itertools

import pytest
import tensorflow as tf

from albert_tf.data.record_order import RecordOrder

SIZES = {"a": 23, "b": 5, "c": 13}


@pytest.fixture
def files(tmp_path):
    """Files whose records say what they are called."""
    for name, size in SIZES.items():
        with tf.io.TFRecordWriter(str(tmp_path / name), "GZIP" if name == "b" else "") as writer:
            for number in range(1, size + 1):
                writer.write(f"{tmp_path / name} {number}".encode())
    return [str(tmp_path / name) for name in SIZES]


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
