"""Records become batches, with masks that depend on the seed and the batch's number."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining.batches import (
    pretraining_batches,
    pretraining_evaluation_batches,
)
from albert_tf.data.pretraining.record_order import StreamedOrder
from albert_tf.data.record_files import RecordFiles
from tests.data.test_pipeline import assert_equal_batches, take


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


def test_pretraining_batches_and_masks_depend_on_their_numbers(record_files):
    def mask(batch, seed):
        return {
            **batch,
            "mask": tf.stack([*tf.unstack(seed), tf.cast(batch["number"][0], tf.int64)]),
        }

    def make(start_step):
        order = StreamedOrder(RecordFiles(record_files), 4, 10, 5)
        return pretraining_batches(order, parse, start_step, mask)

    dataset = make(0)
    assert dataset.element_spec["number"].shape.rank == 1
    batches = take(dataset, 37)
    assert [batch["mask"].tolist()[:2] for batch in batches] == [
        [5, number] for number in range(37)
    ]
    assert_equal_batches(take(make(17), 20), batches[17:])


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
