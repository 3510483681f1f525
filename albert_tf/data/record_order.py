"""Which records make which batch of a training.

Batch number n is a function of the files, the seed and n. The order is drawn in one place, for the
records and for their names alike. So the records of a batch that did harm can be named afterwards, and
no batch has to carry names for that.
"""

import dataclasses
from collections.abc import Callable, Collection

import tensorflow as tf

from albert_tf.data.record_files import RecordFiles

# How many record files are read in turn. A constant, because it decides the order of the records.
_OPEN_FILES = 16


@dataclasses.dataclass(frozen=True)
class RecordOrder:
    """Shuffled records in full batches, without end.

    Attributes:
        files: what is read, without what is left out.
        batch_size: B, of all replicas together.
        shuffle_buffer: records that are held to draw the next one from.
        seed: decides the order.
    """

    files: RecordFiles
    batch_size: int
    shuffle_buffer: int
    seed: int

    def batches(self) -> tf.data.Dataset:
        """Returns the serialized records, string (B,)."""
        return self._shuffled(self.files.read)

    def names(self, numbers: Collection[int]) -> dict[int, dict[str, list[int]]]:
        """Returns the records of some batches: by the batch's number, file -> record numbers from 1.

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
