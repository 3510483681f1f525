"""Batches of records for pre-training and its evaluation: their order, and their masks.

Batch number n is a function of the files, the seed and n. So a resumed run starts at batch n: whole files
before it are not read, and records before it in its file are skipped. The same code orders the records
and their names, so the records of a bad batch can be named afterwards without carrying names in each
batch.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.batches import ordered
from albert_tf.data.pretraining.masking import Masker
from albert_tf.data.pretraining.record_files import RecordFile
from albert_tf.data.records import RecordSpec


class Records(NamedTuple):
    """Record files with the same kind of records."""

    files: Sequence[RecordFile]
    spec: RecordSpec
    masker: Masker | None = None  # None if the records have masks


class _Record(NamedTuple):
    """A record and its name; or columns of n records."""

    file: tf.Tensor  # index of its file, int64 ()
    number: tf.Tensor  # its number in the file, from 1, int64 ()
    serialized: tf.Tensor  # string ()


@dataclasses.dataclass(frozen=True)
class RecordOrder:
    """Shuffled records in full batches, without end.

    In each epoch the files are shuffled. Their records are cut into windows as large as the shuffle
    buffer, and each window is shuffled.
    """

    records: Records
    batch_size: int  # global batch size, B
    shuffle_buffer: int  # number of records that are held in memory
    seed: int  # of the order, and of dynamic masks

    def batches(self, start: int = 0) -> tf.data.Dataset:
        """Returns the serialized records, string (B,), from batch number `start` on, from 0."""
        return self._batches(start).map(lambda records: records.serialized)

    def names(self, numbers: Collection[int]) -> dict[int, dict[str, list[int]]]:
        """Returns the records of some batches: for each batch and file, record numbers from 1."""
        first, last = min(numbers), max(numbers)
        batches = self._batches(first).take(last - first + 1).as_numpy_iterator()
        found = {}
        for batch, (files, records, _) in enumerate(batches, first):
            if batch in numbers:
                found[batch] = {}
                for file, record in sorted(zip(files.tolist(), records.tolist(), strict=True)):
                    found[batch].setdefault(self.records.files[file].path, []).append(record)
        return found

    def _batches(self, start: int) -> tf.data.Dataset:
        read = _make_reader(self.records.files)
        counts = [file.count for file in self.records.files]
        all_counts = tf.constant(counts, tf.int64)

        def epoch_from(epoch: tf.Tensor, window: tf.Tensor) -> tf.data.Dataset:
            """Returns the records of an epoch from a window on."""
            order = self._shuffled(tf.range(tf.size(all_counts, tf.int64)), epoch, 0)
            ends = tf.cumsum(tf.gather(all_counts, order))
            begin = window * self.shuffle_buffer
            place = tf.searchsorted(ends, [begin], side="right")[0]  # of the file it begins in
            before = begin - tf.concat([[0], ends], axis=0)[place]
            others = tf.data.Dataset.from_tensor_slices(order[place + 1 :])
            return (
                read(order[place], before)
                .concatenate(others.flat_map(lambda file: read(file, tf.constant(0, tf.int64))))
                .batch(self.shuffle_buffer)
                .enumerate(window)
                .map(lambda number, records: self._shuffled(records, epoch, 1 + number))
                .unbatch()
            )

        epoch, position = divmod(start * self.batch_size, sum(counts))
        window, place = divmod(position, self.shuffle_buffer)
        begun = epoch_from(*tf.constant([epoch, window], tf.int64)).skip(place)
        zero = tf.constant(0, tf.int64)
        others = tf.data.Dataset.counter(epoch + 1).flat_map(lambda epoch: epoch_from(epoch, zero))
        return begun.concatenate(others).batch(self.batch_size, drop_remainder=True)

    def _shuffled(self, rows: tf.Tensor | _Record, epoch: tf.Tensor, use: tf.Tensor):
        """Shuffles rows together; each `use` in an epoch has an order of its own."""
        seed = tf.constant([self.seed, 0], tf.int64)
        for number in (epoch, use):
            seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(number, tf.int64))
        places = tf.range(tf.shape(tf.nest.flatten(rows)[0], tf.int64)[0])
        shuffled = tf.random.experimental.stateless_shuffle(places, seed, alg="philox")
        return tf.nest.map_structure(lambda row: tf.gather(row, shuffled), rows)


def _make_reader(
    files: Sequence[RecordFile],
) -> Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]:
    """Returns a function that reads a file: its index, and number of records to skip, int64 ()."""
    paths = tf.constant([file.path for file in files], tf.string)
    counts = tf.constant([file.count for file in files], tf.int64)

    def read(file: tf.Tensor, skipped: tf.Tensor) -> tf.data.Dataset:
        """Returns the records, each a `_Record`."""
        records = tf.data.TFRecordDataset(paths[file])
        numbered = records.skip(skipped).take(counts[file] - skipped).enumerate(skipped + 1)
        return numbered.map(lambda number, serialized: _Record(file, number, serialized))

    return read


def read_in_order(files: Sequence[RecordFile]) -> tf.data.Dataset:
    """Returns the serialized records of files, string ()."""
    read, zero = _make_reader(files), tf.constant(0, tf.int64)
    indices = tf.data.Dataset.range(len(files))
    return indices.flat_map(lambda file: read(file, zero)).map(lambda record: record.serialized)


def pretraining_batches(order: RecordOrder, start_step: int = 0) -> tf.data.Dataset:
    """Returns full, shuffled batches of features (B, ...) without end, from batch number `start_step` on.

    Dynamic masks are a function of the seed and the batch's number from the start of the training. So
    each pass over the records sees new masks, and a resumed run sees the same ones. They are made in
    Python, beside the training.
    """
    return _prepared(order.batches(start_step), order.records, order.seed, start_step)


def pretraining_evaluation_batches(
    records: Records, batch_size: int, seed: int = 0, fixed_size: bool = False
) -> tf.data.Dataset:
    """Returns each record once, in order; the last batch may be smaller.

    Dynamic masks are the same each time. With `fixed_size` rows of zeros, which have no tokens, fill the
    last batch up, for devices that compile each shape separately.
    """
    batches = read_in_order(records.files).batch(batch_size)
    return _prepared(batches, records, seed, fixed_size=batch_size if fixed_size else None)


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
