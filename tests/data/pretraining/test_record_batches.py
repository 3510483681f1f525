"""Records come in an order that the seed decides, and from which any batch can be read."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining.record_batches import (
    Records,
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.data.pretraining.record_files import count_records
from albert_tf.data.records import Feature, RecordSpec
from tests.data.fine_tuning.test_batches import take as take_batches

SIZES = {"a": 203, "b": 5, "c": 128}
TOTAL = sum(SIZES.values())
SPEC = RecordSpec((Feature("file", (1,)), Feature("number", (1,))))


@pytest.fixture
def paths(tmp_path):
    """Files of records that contain their names."""
    for name, size in SIZES.items():
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            numbers = np.arange(1, size + 1)[:, np.newaxis]
            columns = {"file": np.full_like(numbers, ord(name)), "number": numbers}
            for record in SPEC.serialize_batch(columns):
                writer.write(record)
    return [str(tmp_path / name) for name in SIZES]


def open_files(paths):
    return Records(count_records(paths, SPEC), SPEC)


def take(paths, count, start=0, batch_size=16, shuffle_buffer=100):
    """Returns the names in the records of some batches, (count, B)."""
    batches = pretraining_batches(open_files(paths), batch_size, shuffle_buffer, 5, start)
    return [
        [
            f"{chr(file)} {number}"
            for file, number in zip(batch["file"].ravel(), batch["number"].ravel(), strict=True)
        ]
        for batch in batches.take(count).as_numpy_iterator()
    ]


ALL = sorted(f"{name} {number}" for name, size in SIZES.items() for number in range(1, size + 1))


def test_holds_each_record_once_an_epoch(paths):
    records = list(itertools.chain(*take(paths, TOTAL)))
    epochs = [records[start : start + TOTAL] for start in range(0, 16 * TOTAL, TOTAL)]
    assert all(sorted(epoch) == ALL for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 16
    assert len({"".join(dict.fromkeys(name[0] for name in epoch)) for epoch in epochs}) > 2


def test_starts_at_any_batch(paths):
    whole = take(paths, 49)  # more than two passes over the files
    # In the second window, at the end of the first epoch of 21 batches, in the third.
    for start in (6, 20, 47):
        assert take(paths, 2, start) == whole[start : start + 2]


def test_a_batch_may_be_larger_than_an_epoch(paths):
    assert take(paths, 1, 4, batch_size=1000) == take(paths, 5, batch_size=1000)[4:]


def test_order_for_a_seed_never_changes(paths):
    (batch,) = take(paths, 1, 97, batch_size=4, shuffle_buffer=10)
    assert " ".join(batch) == "a 54 a 55 a 49 a 51"


def test_evaluation_reads_in_order_once(paths):
    dataset = pretraining_evaluation_batches(open_files(paths), 100)
    batches = take_batches(dataset, 100)
    assert [len(batch["number"]) for batch in batches] == [100, 100, 100, 36]
    numbers = np.concatenate([batch["number"] for batch in batches])
    assert numbers.ravel().tolist() == [n for size in SIZES.values() for n in range(1, size + 1)]


def test_evaluation_in_batches_of_one_size(paths):
    dataset = pretraining_evaluation_batches(open_files(paths[1:2]), 4, fixed_size=True)
    assert dataset.element_spec["number"].shape == (4, 1)
    for name, row in (("file", [ord("b")] * 5), ("number", [1, 2, 3, 4, 5])):
        values = np.concatenate([batch[name] for batch in take_batches(dataset, 100)])
        assert values.ravel().tolist() == [*row, 0, 0, 0]
