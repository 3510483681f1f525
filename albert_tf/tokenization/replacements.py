"""A table from numbers to sequences of numbers, as TensorFlow operations."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

# In the table: the number stays as it is.
_ITSELF = -1


class Replacements:
    """Puts a sequence of numbers, maybe an empty one, in the place of some numbers.

    Its entries are the numbers of all sequences, end to end in the order of what they replace, and one
    more, which stands for every number that stays.

    Args:
        table: number -> the numbers that take its place.
    """

    def __init__(self, table: Mapping[int, Sequence[int]]):
        # The last row serves every number that has none of its own.
        rows = [*sorted(table.items()), (np.iinfo(np.int32).max, [_ITSELF])]
        self._numbers = np.array([number for number, _ in rows], np.int32)
        self._values = np.concatenate([row for _, row in rows]).astype(np.int32)
        self._row_lengths = np.array([len(row) for _, row in rows], np.int64)

    def find(self, numbers: tf.Tensor) -> tf.RaggedTensor:
        """Returns for int32 (n,) the indices of the entries that take each place, int64 (n, None)."""
        row = tf.searchsorted(self._numbers, numbers)
        row = tf.where(tf.gather(self._numbers, row) == numbers, row, len(self._numbers) - 1)
        entries = tf.range(len(self._values), dtype=tf.int64)
        table = tf.RaggedTensor.from_row_lengths(entries, self._row_lengths, validate=False)
        return tf.gather(table, row)

    def replace(self, numbers: tf.Tensor, entries: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns what takes each place, int32 (n, None), given `entries` from `find(numbers)`."""
        values = tf.gather(self._values, entries.values)
        kept = tf.gather(numbers, entries.value_rowids())
        return entries.with_values(tf.where(values == _ITSELF, kept, values))
