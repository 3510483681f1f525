"""Orders of records that a seed decides.

Batch number n is a function of the files, the seed and n. The same code orders the records and their
names, so the records of a bad batch can be named afterwards without carrying names in each batch.
"""

import abc
import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf

from albert_tf.data.pretraining.record_index import RecordIndex
from albert_tf.data.record_files import RecordFiles

# Number of files that a stream reads in parallel. A constant, because it decides the order.
_OPEN_FILES = 16


@dataclasses.dataclass(frozen=True)
class RecordOrder(abc.ABC):
    """Shuffled records in full batches, without end.

    Attributes:
        source: records to read.
        batch_size: global batch size, B.
        shuffle_buffer: number of records that are held in memory to shuffle them.
        seed: random seed of the order.
    """

    source: RecordIndex | RecordFiles
    batch_size: int
    shuffle_buffer: int
    seed: int

    def batches(self, start: int = 0) -> tf.data.Dataset:
        """Returns the serialized records, string (B,), from batch number `start` on, from 0."""
        return self._batches(self.source.read, start)

    def names(self, numbers: Collection[int]) -> dict[int, dict[str, list[int]]]:
        """Returns the records of some batches: for each batch and file, record numbers from 1."""
        first, last = min(numbers), max(numbers)
        named = self._batches(self.source.name, first).take(last - first + 1)
        found = {}
        for number, (paths, records) in enumerate(named.as_numpy_iterator(), first):
            if number in numbers:
                by_file: dict[str, list[int]] = {}
                for path, record in sorted(zip(paths.tolist(), records.tolist(), strict=True)):
                    by_file.setdefault(path.decode(), []).append(record)
                found[number] = by_file
        return found

    @abc.abstractmethod
    def _batches(self, read: Callable[..., Any], start: int) -> tf.data.Dataset:
        """Returns batches of what `source.read` or `source.name` returns."""


@dataclasses.dataclass(frozen=True)
class IndexedOrder(RecordOrder):
    """An order in which any batch can be read without those before it.

    In each epoch the pages of the index are shuffled. Their records are cut into windows as large as the
    shuffle buffer, and each window is shuffled.
    """

    source: RecordIndex

    def _batches(self, read: Callable[..., Any], start: int) -> tf.data.Dataset:
        good_counts = tf.constant(self.source.good_counts)

        def epoch_from(epoch: tf.Tensor, window: tf.Tensor) -> tf.data.Dataset:
            """Returns the elements of an epoch from a window on."""
            pages = self._shuffled(tf.range(tf.size(good_counts, tf.int64)), epoch, 0)
            ends = tf.cumsum(tf.gather(good_counts, pages))
            # The window begins inside of this page.
            page = tf.searchsorted(ends, [window * self.shuffle_buffer], side="right")[0]
            done = tf.concat([[0], ends], axis=0)[page]
            return (
                tf.data.Dataset.from_tensor_slices(pages[page:])
                .map(read, num_parallel_calls=tf.data.AUTOTUNE)
                .unbatch()
                .skip(window * self.shuffle_buffer - done)
                .batch(self.shuffle_buffer)
                .enumerate(window)
                .map(lambda number, records: self._shuffled(records, epoch, 1 + number))
                .unbatch()
            )

        epoch, position = divmod(start * self.batch_size, int(self.source.good_counts.sum()))
        window, place = divmod(position, self.shuffle_buffer)
        begun = epoch_from(*tf.constant([epoch, window], tf.int64)).skip(place)
        zero = tf.constant(0, tf.int64)
        others = tf.data.Dataset.counter(epoch + 1).flat_map(lambda epoch: epoch_from(epoch, zero))
        return begun.concatenate(others).batch(self.batch_size, drop_remainder=True)

    def _shuffled(self, rows: tf.Tensor | tuple[tf.Tensor, ...], epoch: tf.Tensor, use: tf.Tensor):
        """Shuffles rows together; each `use` in an epoch has an order of its own."""
        seed = tf.constant([self.seed, 0], tf.int64)
        for number in (epoch, use):
            seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(number, tf.int64))
        places = tf.range(tf.shape(tf.nest.flatten(rows)[0], tf.int64)[0])
        shuffled = tf.random.experimental.stateless_shuffle(places, seed, alg="philox")
        return tf.nest.map_structure(lambda row: tf.gather(row, shuffled), rows)


@dataclasses.dataclass(frozen=True)
class StreamedOrder(RecordOrder):
    """An order for which all earlier records have to be read, e.g. of compressed files."""

    source: RecordFiles

    def _batches(self, read: Callable[..., Any], start: int) -> tf.data.Dataset:
        return (
            self.source.as_dataset()
            .shuffle(len(self.source.paths), self.seed)
            .interleave(read, cycle_length=_OPEN_FILES, num_parallel_calls=tf.data.AUTOTUNE)
            .shuffle(self.shuffle_buffer, self.seed)
            .repeat()
            .batch(self.batch_size, drop_remainder=True)
            .skip(start)
        )
