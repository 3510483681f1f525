"""The SentencePiece tokenizer as TensorFlow operations, for a SavedModel that takes raw text.

It gives the ids that `AlbertTokenizer` gives, whatever the Unicode version and locale of the machine
that serves the model: the tables come from the Python that exports it. TensorFlow's own
`tf.strings.lower` would make "ı" of "I" under a Turkish locale and stop at a NUL, and its NFKD and
lower-casing follow other versions of Unicode.
"""

import functools
import re
import sys
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.tokenization.normalization import normalize_text
from albert_tf.tokenization.sentencepiece_tokenizer import AlbertTokenizer

# The one letter whose lower case depends on its neighbours: ς ends a word, σ stands elsewhere.
_SIGMA, _LOWER_SIGMA, _FINAL_SIGMA = "Σ", "σ", "ς"
# In a table of replacements: the character stays as it is.
_ITSELF = -1


class GraphTokenizer(tf.Module):
    """Turns lines of text into ids, inside a graph.

    Malformed UTF-8 becomes U+FFFD, as it does when Python decodes a file with `errors="replace"`.

    One difference is left. Where two ways to split are equally probable up to rounding, as `b` `bb` and
    `bb` `b` are, the SentencePiece inside tensorflow_text can choose another one than the Python
    package; it did for hash values and long rows of digits, in 1 of 7,500 lines.

    Args:
        tokenizer: the tokenizer to follow.
    """

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__()
        self._lower_case = tokenizer.lower_case
        self._white_space = f"{_character_class(str.isspace)}+"
        self._characters = _Replacements(_normalized_characters(tokenizer.lower_case))
        self._final_sigma = _final_sigma()
        self._sentencepiece = tf_text.SentencepieceTokenizer(
            model=tokenizer.serialized_model, out_type=tf.int32
        )
        self._digit_commas = _Replacements(tokenizer.digit_comma_splits)

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids, int32 (B, None), of lines of UTF-8 text, string (B,)."""
        return self._digit_commas(self._sentencepiece.tokenize(self._normalize(text)))

    def _normalize(self, text: tf.Tensor) -> tf.Tensor:
        """`normalize_text` for each line, string (B,)."""
        text = tf.strings.strip(tf.strings.regex_replace(text, self._white_space, " "))
        characters = self._characters(tf.strings.unicode_decode(text, "UTF-8"))
        text = tf.strings.unicode_encode(characters, "UTF-8")
        if self._lower_case:
            text = tf.strings.regex_replace(text, self._final_sigma, rf"\1{_FINAL_SIGMA}\2")
            text = tf.strings.regex_replace(text, _SIGMA, _LOWER_SIGMA)
        return text


class _Replacements:
    """Puts a sequence of numbers, maybe an empty one, in the place of some numbers.

    Args:
        table: number -> the numbers that take its place.
    """

    def __init__(self, table: dict[int, list[int]]):
        # The last row serves every number that has none of its own.
        rows = [*sorted(table.items()), (np.iinfo(np.int32).max, [_ITSELF])]
        self._numbers = np.array([number for number, _ in rows], np.int32)
        self._values = np.concatenate([row for _, row in rows]).astype(np.int32)
        self._row_lengths = np.array([len(row) for _, row in rows], np.int64)

    def __call__(self, sequences: tf.RaggedTensor) -> tf.RaggedTensor:
        """Replaces in int32 (B, None)."""
        numbers = sequences.values
        row = tf.searchsorted(self._numbers, numbers)
        row = tf.where(tf.gather(self._numbers, row) == numbers, row, len(self._numbers) - 1)
        table = tf.RaggedTensor.from_row_lengths(self._values, self._row_lengths, validate=False)
        replaced = tf.gather(table, row)  # (numbers, None)
        kept = tf.repeat(numbers, replaced.row_lengths())
        values = tf.where(replaced.values == _ITSELF, kept, replaced.values)
        return sequences.with_values(replaced.with_values(values)).merge_dims(1, 2)


# Both go through all of Unicode, which takes a second.
@functools.cache
def _normalized_characters(lower_case: bool) -> dict[int, list[int]]:
    """What becomes of each character alone; only the lower case of sigma depends on its neighbours."""
    return {
        ord(char): [ord(part) for part in normalized]
        for char in _characters()
        if not char.isspace() and (normalized := _normalize_but_sigma(char, lower_case)) != char
    }


def _normalize_but_sigma(char: str, lower_case: bool) -> str:
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
