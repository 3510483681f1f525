"""Batches of records for pre-training, in an order that a seed decides.

Batch number n is a function of the files, the seed and n. The same code orders the records and their
names, so the records of a bad batch can be named afterwards without carrying names in each batch.
"""

import dataclasses
from collections.abc import Callable, Collection

import tensorflow as tf

from albert_tf.data.pipeline import ordered
from albert_tf.data.record_files import RecordFiles

# Number of files that are read in parallel. A constant, because it decides the order of the records.
_OPEN_FILES = 16

Parse = Callable[[tf.Tensor], dict[str, tf.Tensor]]
# Masks a parsed batch, given a seed, integers (2,).
Mask = Callable[[dict[str, tf.Tensor], tf.Tensor], dict[str, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class RecordOrder:
    """Shuffled records in full batches, without end.

    Attributes:
        files: files to read.
        batch_size: global batch size, B.
        shuffle_buffer: size of the shuffle buffer in records.
        seed: random seed of the order.
    """

    files: RecordFiles
    batch_size: int
    shuffle_buffer: int
    seed: int

    def batches(self) -> tf.data.Dataset:
        """Returns the serialized records, string (B,)."""
        return self._shuffled(self.files.read)

    def names(self, numbers: Collection[int]) -> dict[int, dict[str, list[int]]]:
        """Returns the records of some batches: for each batch and file, record numbers from 1.

        Reads all records up to the last of these batches.
        """
        first, last = min(numbers), max(numbers)
        named = self._shuffled(self.files.name).enumerate().skip(first).take(last - first + 1)
        found = {}
        for number, (paths, records) in named.as_numpy_iterator():
            if number in numbers:
                by_file: dict[str, list[int]] = {}
                for path, record in sorted(zip(paths.tolist(), records.tolist(), strict=True)):
                    by_file.setdefault(path.decode(), []).append(record)
                found[int(number)] = by_file
        return found

    def _shuffled(self, read: Callable[..., tf.data.Dataset]) -> tf.data.Dataset:
        return (
            self.files.as_dataset()
            .shuffle(len(self.files.paths), self.seed)
            .interleave(read, cycle_length=_OPEN_FILES, num_parallel_calls=tf.data.AUTOTUNE)
            .shuffle(self.shuffle_buffer, self.seed)
            .repeat()
            .batch(self.batch_size, drop_remainder=True)
        )


def pretraining_batches(
    order: RecordOrder, parse: Parse, start_step: int = 0, mask: Mask | None = None
) -> tf.data.Dataset:
    """Returns full, shuffled batches of records without end.

    Dynamic masks are a function of the seed and the batch's number from the start of the training. So
    each pass over the records sees new masks, and a resumed run sees the same ones.

    Args:
        order: order of the records; its seed decides the masks too.
        parse: `RecordSpec.parse`, which turns serialized records (B,) into features (B, ...).
        start_step: number of the first batch to return, from 0. Earlier ones are read but not parsed.
        mask: `DynamicMasker`, which masks a batch; None for records with static masks.
    """
    return _prepared(order.batches(), parse, mask, order.seed, start_step)


def pretraining_evaluation_batches(
    files: RecordFiles,
    parse: Parse,
    batch_size: int,
    seed: int = 0,
    mask: Mask | None = None,
    fixed_size: bool = False,
) -> tf.data.Dataset:
    """Returns each record once, in order; the last batch may be smaller.

    Dynamic masks are the same each time.

    Args:
        files: files to read.
        parse: `RecordSpec.parse`, which turns serialized records (B,) into features (B, ...).
        batch_size: batch size, B.
        seed: random seed of the masks.
        mask: `DynamicMasker`, which masks a batch; None for records with static masks.
        fixed_size: whether to pad the last batch with rows of zeros, for devices that compile each shape
            separately. These rows have no tokens.
    """
    records = files.as_dataset().flat_map(files.read).batch(batch_size)
    return _prepared(records, parse, mask, seed, fixed_size=batch_size if fixed_size else None)


def _prepared(
    records: tf.data.Dataset,
    parse: Parse,
    mask: Mask | None,
    seed: int,
    start_step: int = 0,
    fixed_size: int | None = None,
) -> tf.data.Dataset:
    def prepare(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = parse(serialized)
        if mask is not None:
            batch = mask(batch, tf.stack([tf.cast(seed, tf.int64), number]))
        if fixed_size is None:
            return batch
        return {name: _pad(rows, fixed_size) for name, rows in batch.items()}

    numbered = records.enumerate().skip(start_step)
    return ordered(numbered.map(prepare, num_parallel_calls=tf.data.AUTOTUNE))


def _pad(rows: tf.Tensor, count: int) -> tf.Tensor:
    """Pads a batch to `count` rows with zeros."""
    missing = [[0, count - tf.shape(rows)[0]]] + [[0, 0]] * (rows.shape.rank - 1)
    return tf.ensure_shape(tf.pad(rows, missing), [count, *rows.shape[1:]])
