"""Where the words of a text begin, as the pieces of a vocabulary tell."""

import functools
import unicodedata
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from albert_tf.tokenization.interface import CONTINUATION_MARK, WORD_MARK, Tokenizer
from albert_tf.tokenization.special_pieces import WORDPIECE

if TYPE_CHECKING:
    import tensorflow as tf

# First words of the Unicode names of their letters.
_WRITTEN_WITHOUT_SPACES = {
    "BALINESE",
    "BOPOMOFO",
    "CJK",
    "HIRAGANA",
    "IDEOGRAPHIC",
    "JAVANESE",
    "KATAKANA",
    "KATAKANA-HIRAGANA",
    "KHMER",
    "LAO",
    "MYANMAR",
    "THAI",
    "TIBETAN",
    "YI",
}

_Array: TypeAlias = "np.ndarray | tf.Tensor"


class WordTables(NamedTuple):
    """What the pieces of a vocabulary say about the beginnings of words.

    A word ends at white space, and before and after punctuation and symbols. In scripts that are written
    without spaces each piece is a word. Unlike the words of whole-word masking (`Tokenizer.word_start`),
    these do not follow the original, which knows English only.

    Attributes:
        opens: int32 (V,), 1 for a piece that begins a word, 0 for one that begins a word after a piece
            that closes one, -1 for one that begins with a combining mark and so never begins a word.
        closes: int32 (V,), 1 for a piece that ends a word, otherwise 0.
    """

    opens: np.ndarray
    closes: np.ndarray


@functools.lru_cache(maxsize=2)  # They take a tenth of a second for 30,000 pieces.
def word_tables(tokenizer: Tokenizer) -> WordTables:
    """Returns the tables for `begin_words`."""
    is_wordpiece = tokenizer.pieces[tokenizer.unk_id] == WORDPIECE.unk
    texts = [_text_of_piece(piece, is_wordpiece) for piece in tokenizer.pieces]
    opens = np.array([_opens_word(text, is_first) for text, is_first in texts], np.int32)
    closes = np.array([_closes_word(text) for text, _ in texts], np.int32)
    opens[tokenizer.unk_id] = closes[tokenizer.unk_id] = 1
    return WordTables(opens, closes)


def _text_of_piece(piece: str, is_wordpiece: bool) -> tuple[str, bool]:
    """Returns the text that a piece stands for, and whether its mark says that it begins a word."""
    if is_wordpiece:
        text = piece.removeprefix(CONTINUATION_MARK)
        return text, text == piece
    return piece.replace(WORD_MARK, ""), piece.startswith(WORD_MARK)


def _opens_word(text: str, is_first: bool) -> int:
    """Returns the value of `WordTables.opens` for a piece."""
    if is_first:
        return 1
    if not text:
        return 0
    if _is_mark(text[0]):
        return -1
    return 0 if joins_words(text[0]) else 1


def _closes_word(text: str) -> int:
    """Returns the value of `WordTables.closes` for a piece."""
    bases = [char for char in text if not _is_mark(char)]
    return 1 if bases and not joins_words(bases[-1]) else 0


def begin_words(
    opens: _Array, closes_before: _Array, starts: _Array, ends_before: _Array
) -> _Array:
    """Returns which of n tokens begin a word, bool (n,).

    The first token of a text always does. Tokens of one character of the text, such as those of ½, are of
    one word.

    Args:
        opens: int (n,), `WordTables.opens` of each token.
        closes_before: int (n,), `WordTables.closes` of the token before it; 2 for the first of a text.
        starts: int (n,), first character of each token.
        ends_before: int (n,), the character after the token before it; 0 for the first of a text.
    """
    return (opens + closes_before > 0) & (starts >= ends_before)


def _is_mark(char: str) -> bool:
    return unicodedata.category(char).startswith("M")


def joins_words(char: str) -> bool:
    """Returns whether a character is part of the same word as a letter next to it."""
    if unicodedata.category(char)[0] not in "LN":
        return False
    return unicodedata.name(char, "").partition(" ")[0] not in _WRITTEN_WITHOUT_SPACES
