"""Characters of text as TensorFlow operations, with the same result as in Python.

TensorFlow's own `tf.strings.lower` would turn "I" into "ı" under a Turkish locale and stop at a NUL, and
its NFKD and lower-casing follow other versions of Unicode. So tables made by Python say what each
character is and becomes.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tokenization.characters import code_points, white_space
from albert_tf.tokenization.final_sigma import CAPITAL_SIGMAS, FINAL_SIGMA

# In a table of replacements: the number stays as it is.
_ITSELF = -1
# Ends each table, so that a search finds an entry for every character.
_LARGEST = np.int32(np.iinfo(np.int32).max)


class Replaced(NamedTuple):
    """What replaces n numbers: m numbers.

    Attributes:
        values: int32 (m,).
        origins: int64 (m,), the index of the number that each one replaces.
        entries: int64 (m,), its entry in the table.
        splits: int64 (n + 1,), how many come before what replaces each number, and all of them.
    """

    values: tf.Tensor
    origins: tf.Tensor
    entries: tf.Tensor
    splits: tf.Tensor

    def in_rows(self, row_splits: tf.Tensor) -> tf.RaggedTensor:
        """Returns what replaces rows of numbers, int32 (B, None), given their splits, int64 (B + 1,)."""
        row_splits = tf.gather(self.splits, row_splits)
        return tf.RaggedTensor.from_row_splits(self.values, row_splits, validate=False)


class Replacements:
    """Replaces some numbers with sequences of numbers, which may be empty.

    The entries of the table are the numbers of all sequences, in the order of what they replace, and a
    last one for every number that stays. Only TensorFlow can read a table in compressed form.
    """

    def __init__(self, table: Mapping[int, Sequence[int]], compress: bool = True):
        self._constant = _compressed if compress else tf.constant
        rows = [*sorted(table.items()), (_LARGEST, [_ITSELF])]
        self._numbers = np.array([number for number, _ in rows], np.int32)
        self._values = np.concatenate([row for _, row in rows]).astype(np.int32)
        self._row_lengths = np.array([len(row) for _, row in rows], np.int64)

    def replace(self, numbers: tf.Tensor) -> Replaced:
        """Replaces each of int32 (n,)."""
        table, row_lengths = self._constant(self._numbers), self._constant(self._row_lengths)
        row_starts = tf.cumsum(row_lengths, exclusive=True)
        row = tf.searchsorted(table, numbers)
        row = tf.where(tf.gather(table, row) == numbers, row, len(self._numbers) - 1)
        splits = tf.pad(tf.cumsum(tf.gather(row_lengths, row)), [[1, 0]])
        origins, in_sequence = places_in_rows(splits)
        entries = tf.gather(tf.gather(row_starts, row), origins) + in_sequence
        values = tf.gather(self._constant(self._values), entries)
        values = tf.where(values == _ITSELF, tf.gather(numbers, origins), values)
        return Replaced(values, origins, entries, splits)


def _compressed(table: np.ndarray) -> tf.Tensor:
    """Returns a constant that a graph holds in compressed form; TensorFlow decodes it once."""
    content = tf.constant(zlib.compress(table.tobytes()))
    return tf.io.decode_raw(tf.io.decode_compressed(content, "ZLIB"), table.dtype)


def places_in_rows(row_splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the row of each of n elements and its index there, int64 (n,) each.

    `tf.RaggedTensor.value_rowids` and `tf.ragged.range` do the same with a hundred operations.

    `row_splits`, int64 (B + 1,), are the numbers of elements before each row and in all of them.
    """
    indices = tf.range(row_splits[-1])
    rows = tf.searchsorted(row_splits[1:], indices, side="right", out_type=tf.int64)
    return rows, indices - tf.gather(row_splits, rows)


def select(mask: tf.Tensor, *arrays: tf.Tensor) -> list[tf.Tensor]:
    """Returns the elements of arrays (n,) where the mask, bool (n,), is true."""
    indices = tf.where(mask)[:, 0]
    return [tf.gather(array, indices) for array in arrays]


def write_final_sigmas(characters: tf.RaggedTensor, pattern: str) -> tf.RaggedTensor:
    """Writes ς for each capital sigma that ends a word, int32 (B, None); see `final_sigma_pattern`."""

    def write() -> tf.Tensor:
        text = tf.strings.unicode_encode(characters, "UTF-8")
        text = tf.strings.regex_replace(text, pattern, rf"\1{FINAL_SIGMA}\2")
        return tf.strings.unicode_decode(text, "UTF-8").values

    # The pattern lists all letters of Unicode, and hardly any text has this one.
    has_sigma = tf.reduce_any(is_one_of(characters.values, code_points(CAPITAL_SIGMAS)))
    return characters.with_values(tf.cond(has_sigma, write, lambda: tf.identity(characters.values)))


def is_white_space(characters: tf.Tensor) -> tf.Tensor:
    """Returns which code points, int32 (n,), are white space to Python; bool (n,)."""
    return is_one_of(characters, white_space())


def is_one_of(values: tf.Tensor, members: np.ndarray) -> tf.Tensor:
    """Returns which of the values, int32 (n,), are among the ascending members; bool (n,)."""
    table = _compressed(np.append(members, _LARGEST))
    return tf.gather(table, tf.searchsorted(table, values)) == values
