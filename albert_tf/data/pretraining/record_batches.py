"""Batches of records for pre-training and its evaluation: their order, and their masks.

Batch number n is a function of the files, the seed and n. So a resumed run starts at batch n: whole files
before it are not read, and records before it in its file are skipped.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.ordering import ordered
from albert_tf.data.pretraining.masking import Masker
from albert_tf.data.pretraining.record_files import RecordFile
from albert_tf.data.records import RecordSpec


class Records(NamedTuple):
    """Record files with the same kind of records.

    The fingerprint does not depend on where the files lie.
    """

    files: Sequence[RecordFile]
    spec: RecordSpec
    masker: Masker | None = None  # None if the records have masks
    fingerprint: str = ""
    compression: str = ""  # of all files, as TensorFlow names it


def pretraining_batches(
    records: Records, batch_size: int, shuffle_buffer: int, seed: int, start_step: int = 0
) -> tf.data.Dataset:
    """Returns full, shuffled batches of features (B, ...) without end, from batch number `start_step` on.

    In each epoch the files are shuffled. Their records are cut into windows of `shuffle_buffer` records,
    which are held in memory, and each window is shuffled.

    Dynamic masks are a function of the seed and the batch's number from the start of the training. So
    each pass over the records sees new masks, and a resumed run sees the same ones. They are made in
    Python, beside the training.
    """
    counts = [file.count for file in records.files]
    all_counts, zero = tf.constant(counts, tf.int64), tf.constant(0, tf.int64)
    paths = tf.constant(_paths(records))

    def epoch_from(epoch: tf.Tensor, window: tf.Tensor) -> tf.data.Dataset:
        """Returns the serialized records of an epoch from a window on."""

        def shuffle_window(number: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
            # Use 0 is the order of the files.
            return _shuffled(rows, seed, epoch, use=1 + number)

        order = _shuffled(
            rows=tf.range(tf.size(all_counts, tf.int64)), seed=seed, epoch=epoch, use=zero
        )
        ends = tf.cumsum(tf.gather(all_counts, order))
        begin = window * shuffle_buffer
        place = tf.searchsorted(ends, [begin], side="right")[0]  # of the file it begins in
        before = begin - tf.concat([[0], ends], axis=0)[place]
        rest = tf.data.TFRecordDataset(tf.gather(paths, order[place:]), records.compression)
        rest = rest.skip(before)
        windows = rest.batch(shuffle_buffer)
        shuffled = windows.enumerate(window).map(shuffle_window)
        return shuffled.unbatch()

    epoch, position = divmod(start_step * batch_size, sum(counts))
    window, place = divmod(position, shuffle_buffer)
    begun = tf.constant([epoch, window], tf.int64)
    rows = tf.data.Dataset.counter(epoch).flat_map(
        lambda epoch: epoch_from(epoch, tf.where(epoch == begun[0], begun[1], zero))
    )
    batches = rows.skip(place).batch(batch_size, drop_remainder=True)
    return _prepared(batches, records, seed, start_step)


def _shuffled(rows: tf.Tensor, seed: int, epoch: tf.Tensor, use: tf.Tensor) -> tf.Tensor:
    """Shuffles rows; each `use` in an epoch has an order of its own."""
    seeds = tf.constant([seed, 0], tf.int64)
    for number in (epoch, use):
        seeds = tf.random.experimental.stateless_fold_in(seeds, number)
    return tf.random.experimental.stateless_shuffle(rows, seeds, alg="philox")


def pretraining_evaluation_batches(
    records: Records, batch_size: int, seed: int = 0, fixed_size: bool = False
) -> tf.data.Dataset:
    """Returns each record once, in order; the last batch may be smaller.

    Dynamic masks are the same each time. With `fixed_size` rows of zeros, which have no tokens, fill the
    last batch up, for devices that compile each shape separately.
    """
    batches = tf.data.TFRecordDataset(_paths(records), records.compression).batch(batch_size)
    return _prepared(batches, records, seed, fixed_size=batch_size if fixed_size else None)


def _paths(records: Records) -> list[str | bytes]:
    return [files.for_tensorflow(file.path) for file in records.files]


def _prepared(
    batches: tf.data.Dataset,
    records: Records,
    seed: int,
    start_step: int = 0,
    fixed_size: int | None = None,
) -> tf.data.Dataset:
    def prepare(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = records.spec.parse(serialized)
        if records.masker is not None:
            batch = _mask(batch, records.masker, seed, number)
        if fixed_size is None:
            return batch
        return {name: _pad(rows, fixed_size) for name, rows in batch.items()}

    numbered = batches.enumerate(start_step)
    return ordered(numbered.map(prepare, num_parallel_calls=tf.data.AUTOTUNE))


def _mask(
    batch: dict[str, tf.Tensor], masker: Masker, seed: int, number: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Masks a batch in Python, given its number, and keeps the static shapes."""
    names = ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")

    def mask(number: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
        rng = np.random.default_rng((seed, int(number)))
        masked = masker.mask_batch(dict(zip(batch, columns, strict=True)), rng)
        return [masked[name] for name in names]

    dtypes = [tf.int32, tf.int32, tf.int32, tf.float32]
    arrays = tf.numpy_function(mask, [number, *batch.values()], dtypes)
    shape = batch["input_ids"].shape
    shapes = [shape, *[(shape[0], masker.config.max_predictions_per_seq)] * 3]
    return batch | dict(zip(names, map(tf.ensure_shape, arrays, shapes), strict=True))


def _pad(rows: tf.Tensor, count: int) -> tf.Tensor:
    missing = [[0, count - tf.shape(rows)[0]]] + [[0, 0]] * (rows.shape.rank - 1)
    return tf.ensure_shape(tf.pad(rows, missing), [count, *rows.shape[1:]])
