"""Normalisation of text as TensorFlow operations, with the same result as in Python.

TensorFlow's own `tf.strings.lower` would turn "I" into "ı" under a Turkish locale and stop at a NUL, and
its NFKD and lower-casing follow other versions of Unicode. So tables made by Python say what each
character becomes. Only the lower case of sigma depends on its neighbours.
"""

import unicodedata
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tokenization.character_tables import code_points, combining_marks, white_space
from albert_tf.tokenization.lower_case import lower_sigmas
from albert_tf.tokenization.normalization import normalized_characters
from albert_tf.tokenization.sentencepiece_characters import CharacterClasses

# Longer runs of unknown characters are shortened to this many: TensorFlow Text takes time that grows with
# the square of their number.
_MAX_UNKNOWN_RUN = 256

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

    def to_ragged(self, row_splits: tf.Tensor) -> tf.RaggedTensor:
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


class NormalizedCharacters(NamedTuple):
    """Normalised lines, and the origin of their n characters in the original lines.

    Attributes:
        text: string (B,).
        starts: int64 (n,), the original character that each one comes from.
        ends: int64 (n,), where the next one's origin begins: dropped characters belong to the one before.
        text_ends: int64 (B,), where trailing white space begins.
        row_limits: int64 (B,), number of characters up to the end of each line.
        byte_limits: int64 (n,), number of bytes in UTF-8 up to the end of each character.
    """

    text: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    text_ends: tf.Tensor
    row_limits: tf.Tensor
    byte_limits: tf.Tensor

    def index_of_byte(self, offsets: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the indices, int64 (m,), of the characters at some bytes.

        A byte is given by its offset in its line, int32 (m,), and the line, int64 (m,).
        """
        row_starts = tf.pad(self.row_limits, [[1, 0]])
        bytes_before = tf.gather(tf.pad(self.byte_limits, [[1, 0]]), row_starts)
        global_offsets = tf.cast(offsets, tf.int64) + tf.gather(bytes_before, rows)
        return tf.searchsorted(self.byte_limits, global_offsets, side="right", out_type=tf.int64)


class GraphNormalizer:
    """Applies `normalize_text` to lines of text."""

    def __init__(self, lower_case: bool, classes: CharacterClasses):
        replacements = normalized_characters(lower_case, classes.keep_accents)
        self._characters = Replacements(replacements)
        self._lower_case, self._keep_accents = lower_case, classes.keep_accents
        self._known = None if classes.known is None else code_points(classes.known)
        # Characters that may leave nothing, or white space, at the end of a word.
        blank = {ord(char) for char in classes.blank}
        self._blank = np.array(
            sorted(
                blank.difference(replacements)
                | {old for old, new in replacements.items() if not new or new[-1] in blank}
            ),
            np.int32,
        )
        # Characters with a space inside also end a word.
        self._phrases = np.array(
            sorted(old for old, new in replacements.items() if _is_phrase(new, blank)), np.int32
        )
        self._words_are_apart = classes.words_are_apart

    def __call__(self, text: tf.Tensor, max_pieces: int | None = None) -> NormalizedCharacters:
        """Normalises UTF-8 text.

        Most of a long run of unknown characters is dropped, and so is, with `max_pieces`, the end of a
        long line. Neither changes the pieces that count.

        Args:
            text: lines, string (B,).
            max_pieces: number of pieces of each line that are needed; None for all. A line with more
                words than this may be cut after one of them.
        """
        original = tf.strings.unicode_decode(text, "UTF-8")
        values = original.values
        rows, positions = places_in_rows(original.row_splits)
        is_space = is_white_space(values)
        if max_pieces is not None and self._words_are_apart:
            is_needed = self._is_needed(values, is_space, rows, original.row_splits, max_pieces)
            values, is_space, rows, positions = _select(
                is_needed, values, is_space, rows, positions
            )
        kept, text_ends = _collapse_spaces(is_space, rows, positions, num_rows=tf.size(text))
        values, rows, positions = _select(kept, values, rows, positions)

        replaced = self._characters.replace(values)
        characters = replaced.values
        if self._keep_accents:
            decomposed = _lines(characters, tf.gather(rows, replaced.origins), text)
            characters = sort_marks(decomposed, combining_marks()).values
        rows = tf.gather(rows, replaced.origins)
        starts = tf.gather(positions, replaced.origins)
        following = tf.gather(replaced.splits, replaced.origins + 1)
        is_last = tf.gather(tf.pad(rows, [[0, 1]], constant_values=-1), following) != rows
        ends = tf.where(
            is_last, tf.gather(text_ends, rows), tf.gather(tf.pad(starts, [[0, 1]]), following)
        )
        if self._lower_case:
            characters = lower_sigmas(_lines(characters, rows, text)).values
        if self._known is not None:
            is_kept = self._shorten_unknown_runs(characters, rows)
            characters, rows, starts, ends = _select(is_kept, characters, rows, starts, ends)
        byte_lengths = 1 + sum(
            tf.cast(characters >= first, tf.int64) for first in (0x80, 0x800, 0x10000)
        )
        lines = _lines(characters, rows, text)
        return NormalizedCharacters(
            text=tf.strings.unicode_encode(lines, "UTF-8"),
            starts=starts,
            ends=ends,
            text_ends=text_ends,
            row_limits=lines.row_splits[1:],
            byte_limits=tf.cumsum(byte_lengths),
        )

    def _is_needed(
        self,
        values: tf.Tensor,
        is_space: tf.Tensor,
        rows: tf.Tensor,
        row_splits: tf.Tensor,
        max_pieces: int,
    ) -> tf.Tensor:
        """Finds the characters of the first `max_pieces` words of each line, bool (n,).

        Only words that certainly have a piece count: those that end in a character that is not blank.
        """
        before_space = tf.concat([is_space[1:], [False]], axis=0)
        ends_word = before_space & ~_is_one_of(values, self._blank)
        ends_word |= _is_one_of(values, self._phrases)
        counts = tf.cumsum(tf.cast(ends_word, tf.int32), exclusive=True)
        # An empty last line begins after the last count.
        line_counts = tf.gather(tf.pad(counts, [[0, 1]]), row_splits)
        return counts - tf.gather(line_counts, rows) < max_pieces

    def _shorten_unknown_runs(self, characters: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Finds the characters that stay, bool (n,): of a long run its beginning and its last one."""
        assert self._known is not None
        is_first = rows != tf.pad(rows, [[1, 0]], constant_values=-1)[:-1]
        ends_run = is_first | _is_one_of(characters, self._known)
        # A character is dropped if no run ends from so many characters before it to the next one.
        counts = tf.cumsum(tf.cast(ends_run, tf.int32))
        before = tf.pad(counts, [[_MAX_UNKNOWN_RUN, 0]])[: tf.size(counts)]
        after = tf.pad(counts, [[0, 1]], constant_values=-1)[1:]
        return before != after


def _lines(characters: tf.Tensor, rows: tf.Tensor, text: tf.Tensor) -> tf.RaggedTensor:
    """Returns the characters of each line of a text, int32 (B, None)."""
    line_numbers = tf.range(tf.size(text, tf.int64) + 1)
    row_splits = tf.searchsorted(rows, line_numbers, out_type=tf.int64)
    return tf.RaggedTensor.from_row_splits(characters, row_splits, validate=False)


def _select(mask: tf.Tensor, *arrays: tf.Tensor) -> list[tf.Tensor]:
    indices = tf.where(mask)[:, 0]
    return [tf.gather(array, indices) for array in arrays]


def sort_marks(characters: tf.RaggedTensor, marks: Collection[str]) -> tf.RaggedTensor:
    """Sorts each run of some combining marks in lines, int32 (B, None), by their classes, as NFD does."""
    code_points_of_marks = code_points(marks)
    classes = np.array(
        [unicodedata.combining(chr(mark)) for mark in code_points_of_marks], np.int64
    )
    values = characters.values
    place = tf.minimum(tf.searchsorted(code_points_of_marks, values), len(classes) - 1)
    is_mark = tf.gather(code_points_of_marks, place) == values

    def sort() -> tf.Tensor:
        runs = tf.cumsum(tf.cast(~is_mark, tf.int64)) + characters.value_rowids()
        keys = 256 * runs + tf.where(is_mark, tf.gather(classes, place), 0)
        return tf.gather(values, tf.argsort(keys, stable=True))

    sorted_values = tf.cond(tf.reduce_any(is_mark), sort, lambda: tf.identity(values))
    return characters.with_values(sorted_values)


def is_white_space(characters: tf.Tensor) -> tf.Tensor:
    """Returns which code points, int32 (n,), are white space to Python; bool (n,)."""
    return _is_one_of(characters, white_space())


def _is_one_of(values: tf.Tensor, members: np.ndarray) -> tf.Tensor:
    """Returns which of the values, int32 (n,), are among the ascending members; bool (n,)."""
    table = _compressed(np.append(members, _LARGEST))
    return tf.gather(table, tf.searchsorted(table, values)) == values


def _collapse_spaces(
    is_space: tf.Tensor, rows: tf.Tensor, positions: tf.Tensor, num_rows: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Trims white space and reduces each run of it to one space.

    Characters are given by whether they are white space, their lines and their indices there, (n,) each.
    Returns whether each stays, bool (n,), and where trailing white space begins, int64 (B,).
    """
    after_space = tf.concat([[True], is_space[:-1]], axis=0) | (positions == 0)
    text_ends = tf.math.unsorted_segment_max(
        tf.where(is_space, tf.zeros_like(positions), positions + 1), rows, num_rows
    )
    # The maximum of an empty line is the least number there is.
    text_ends = tf.maximum(text_ends, tf.zeros_like(text_ends))
    return ~is_space | (~after_space & (positions < tf.gather(text_ends, rows))), text_ends


def _is_phrase(characters: list[int], blank: set[int]) -> bool:
    """Whether characters that are not blank come before a space."""
    space = ord(" ")
    return space in characters and not blank.issuperset(characters[: characters.index(space)])
