"""`normalize_text` as TensorFlow operations that remember where each character comes from.

TensorFlow's own `tf.strings.lower` would make "ı" of "I" under a Turkish locale and stop at a NUL, and
its NFKD and lower-casing follow other versions of Unicode. So what becomes of a character is a table made
by Python; only the lower case of sigma depends on its neighbours.
"""

import functools
import re
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tokenization.normalization import normalize_text
from albert_tf.tokenization.replacements import Replacements

# The one letter whose lower case depends on its neighbours: ς ends a word, σ stands elsewhere.
_SIGMA, _LOWER_SIGMA, _FINAL_SIGMA = "Σ", "σ", "ς"


class NormalizedCharacters(NamedTuple):
    """Normalised lines, and the n characters of all of them with their origin in the original lines.

    Attributes:
        text: string (B,).
        starts: int64 (n,), the original character that each comes from.
        ends: int64 (n,), where the next one's begins: characters that are dropped belong to those
            before.
        text_ends: int64 (B,), where the white space that ends a line begins.
        row_limits: int64 (B,), in all lines up to each one, how many characters there are.
        byte_limits: int64 (n,), in UTF-8, how many bytes up to each character.
    """

    text: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    text_ends: tf.Tensor
    row_limits: tf.Tensor
    byte_limits: tf.Tensor

    def index_of_byte(self, offsets: tf.RaggedTensor) -> tf.Tensor:
        """Returns the index, int64 (m,), of the character that begins at each byte.

        Args:
            offsets: bytes in each line, (B, None), m in all.
        """
        row_starts = tf.pad(self.row_limits, [[1, 0]])[:-1]
        bytes_before = tf.gather(tf.pad(self.byte_limits, [[1, 0]]), row_starts)
        global_offsets = tf.cast(offsets.values, tf.int64) + tf.gather(
            bytes_before, offsets.value_rowids()
        )
        return tf.searchsorted(self.byte_limits, global_offsets, side="right", out_type=tf.int64)


class GraphNormalizer:
    """Normalises lines of text.

    Args:
        lower_case: whether letters become lower-case.
    """

    def __init__(self, lower_case: bool):
        self._lower_case = lower_case
        self._white_space = np.array(
            [ord(char) for char in _characters() if char.isspace()], np.int32
        )
        self._characters = Replacements(_normalized_characters(lower_case))
        self._final_sigma = _final_sigma()

    def __call__(self, text: tf.Tensor) -> NormalizedCharacters:
        """Normalises UTF-8 text, string (B,)."""
        original = tf.strings.unicode_decode(text, "UTF-8")
        kept, text_ends = self._collapse_spaces(original)
        positions = tf.ragged.boolean_mask(tf.ragged.range(original.row_lengths()), kept)
        original = tf.ragged.boolean_mask(original, kept)
        entries = self._characters.find(original.values)
        characters = original.with_values(
            self._characters.replace(original.values, entries)
        ).merge_dims(1, 2)

        is_dropped = entries.row_lengths() == 0
        starts = tf.ragged.boolean_mask(positions, positions.with_values(~is_dropped))
        counts = tf.boolean_mask(entries.row_lengths(), ~is_dropped)
        byte_lengths = 1 + sum(
            tf.cast(characters.values >= first, tf.int64) for first in (0x80, 0x800, 0x10000)
        )
        return NormalizedCharacters(
            text=self._encode(characters),
            starts=tf.repeat(starts.values, counts),
            ends=tf.repeat(_ends(starts, text_ends), counts),
            text_ends=text_ends,
            row_limits=characters.row_limits(),
            byte_limits=tf.cumsum(byte_lengths),
        )

    def _collapse_spaces(self, original: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Finds the characters that stay where white space is trimmed and each run of it is one space.

        Args:
            original: code points, int32 (B, None).

        Returns:
            bool (B, None), whether a character stays, and int64 (B,), where the white space that ends a
            line begins.
        """
        rows = original.value_rowids()
        positions = tf.ragged.range(original.row_lengths()).values
        nearest = tf.searchsorted(self._white_space, original.values)
        is_space = tf.gather(tf.pad(self._white_space, [[0, 1]]), nearest) == original.values
        after_space = tf.concat([[True], is_space[:-1]], axis=0) | (positions == 0)
        text_ends = tf.math.unsorted_segment_max(
            tf.where(is_space, tf.zeros_like(positions), positions + 1), rows, original.nrows()
        )
        # A line without characters has the least number there is.
        text_ends = tf.maximum(text_ends, tf.zeros_like(text_ends))
        kept = ~is_space | (~after_space & (positions < tf.gather(text_ends, rows)))
        return original.with_values(kept), text_ends

    def _encode(self, characters: tf.RaggedTensor) -> tf.Tensor:
        text = tf.strings.unicode_encode(characters, "UTF-8")
        if not self._lower_case:
            return text
        # The patterns have all letters of Unicode in them, and nearly no text has this one.
        has_sigma = tf.reduce_any(characters.values == ord(_SIGMA))
        return tf.cond(has_sigma, lambda: self._lower_sigmas(text), lambda: text)

    def _lower_sigmas(self, text: tf.Tensor) -> tf.Tensor:
        text = tf.strings.regex_replace(text, self._final_sigma, rf"\1{_FINAL_SIGMA}\2")
        return tf.strings.regex_replace(text, _SIGMA, _LOWER_SIGMA)


def _ends(starts: tf.RaggedTensor, text_ends: tf.Tensor) -> tf.Tensor:
    """Returns the start that follows each start, int64 (n,); of the last of a line, the text's end."""
    rows = starts.value_rowids()
    is_last = tf.concat([rows[1:] != rows[:-1], [True]], axis=0)[: tf.size(rows)]
    following = tf.pad(starts.values[1:], [[0, 1]])[: tf.size(rows)]
    return tf.where(is_last, tf.gather(text_ends, rows), following)


# Both go through all of Unicode, which takes a second.
@functools.cache
def _normalized_characters(lower_case: bool) -> dict[int, list[int]]:
    """What becomes of each character alone; only the lower case of sigma depends on its neighbours."""
    return {
        ord(char): [ord(part) for part in normalized]
        for char in _characters()
        if (normalized := _normalize_alone(char, lower_case)) != char
    }


def _normalize_alone(char: str, lower_case: bool) -> str:
    if char.isspace():
        return " "
    normalized = normalize_text(char, lower_case=False)
    if lower_case:
        normalized = _SIGMA.join(part.lower() for part in normalized.split(_SIGMA))
    return normalized


@functools.cache
def _final_sigma() -> str:
    """A pattern for a sigma that ends a word.

    That is one after a cased letter and not before one, where characters such as an apostrophe do not
    count (the Unicode standard, section 3.13). Python's own lower-casing tells which characters are
    which.
    """

    def is_final_after(before: str) -> bool:
        return (before + _SIGMA).lower().endswith(_FINAL_SIGMA)

    def is_cased(char: str) -> bool:
        return is_final_after("1" + char)

    def is_skipped(char: str) -> bool:
        return is_final_after("A" + char) and not is_cased(char)

    cased, skipped = _character_class(is_cased), _character_class(is_skipped)
    other = f"[^{cased[1:-1]}{skipped[1:-1]}]"
    return f"({cased}{skipped}*){_SIGMA}({skipped}*(?:{other}|$))"


def _character_class(belongs: Callable[[str], bool]) -> str:
    """Returns a character class of RE2 with exactly the characters that belong."""
    members = "".join(char if belongs(char) else "\0" for char in _characters())
    runs = (run.group() for run in re.finditer("[^\0]+", members))
    return "[" + "".join(rf"\x{{{ord(run[0]):x}}}-\x{{{ord(run[-1]):x}}}" for run in runs) + "]"


def _characters() -> Iterator[str]:
    return map(chr, range(sys.maxunicode + 1))
