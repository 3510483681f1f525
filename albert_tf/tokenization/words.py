"""Where words begin, as far as the pieces of a vocabulary tell.

A word ends at white space, and before and after punctuation and symbols. In scripts that are written
without spaces each piece is a word. Unlike the words of whole-word masking (`Tokenizer.word_start`),
these do not follow the original, which knows English only.
"""

import unicodedata
from typing import NamedTuple, TypeVar

import numpy as np

from albert_tf.tokenization.interface import Tokenizer
from albert_tf.tokenization.sentencepiece_tokenizer import WORD_MARK
from albert_tf.tokenization.wordpiece_tokenizer import CONTINUATION_MARK, WordPieceTokenizer

# First words of the Unicode names of their letters.
_WRITTEN_WITHOUT_SPACES = {
    *("BOPOMOFO", "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "YI"),
    *("BALINESE", "JAVANESE", "KHMER", "LAO", "MYANMAR", "THAI", "TIBETAN"),
}

# Arrays, or tensors.
_Array = TypeVar("_Array")


class WordTables(NamedTuple):
    """What the pieces of a vocabulary say about the beginnings of words.

    Attributes:
        opens: int32 (V,), 1 for a piece that begins a word, 0 for one that begins a word after a piece
            that closes one, -1 for one that begins with a combining mark and so never begins a word.
        closes: int32 (V,), 1 for a piece that ends a word, otherwise 0.
    """

    opens: np.ndarray
    closes: np.ndarray


def word_tables(tokenizer: Tokenizer) -> WordTables:
    """Returns the tables for `begin_words`."""
    is_wordpiece = isinstance(tokenizer, WordPieceTokenizer)
    opens, closes = [], []
    for id_, piece in enumerate(tokenizer.pieces):
        if is_wordpiece:
            text = piece.removeprefix(CONTINUATION_MARK)
            is_first = text == piece
        else:
            text = piece.replace(WORD_MARK, "")
            is_first = piece.startswith(WORD_MARK)
        bases = [char for char in text if not _is_mark(char)]
        is_unknown = id_ == tokenizer.unk_id
        if is_first or is_unknown:
            opens.append(1)
        elif text and _is_mark(text[0]):
            opens.append(-1)
        else:
            opens.append(int(bool(text) and not _joins(text[0])))
        closes.append(int(is_unknown or (bool(bases) and not _joins(bases[-1]))))
    return WordTables(np.array(opens, np.int32), np.array(closes, np.int32))


def begin_words(
    opens: _Array, closes_before: _Array, starts: _Array, ends_before: _Array
) -> _Array:
    """Returns which tokens begin a word, bool (n,).

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


def _joins(char: str) -> bool:
    """Returns whether a character is part of the same word as a letter next to it."""
    if unicodedata.category(char)[0] not in "LN":
        return False
    return unicodedata.name(char, "").partition(" ")[0] not in _WRITTEN_WITHOUT_SPACES
