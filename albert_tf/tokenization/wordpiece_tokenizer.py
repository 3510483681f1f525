"""BERT's tokenizer, which ALBERT's Chinese models use: words, then the longest pieces that fit.

Words end at white space and punctuation, and every Chinese character is a word, as in BERT's
`BasicTokenizer`.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from albert_tf import files
from albert_tf.tokenization.interface import CONTINUATION_MARK, WORDPIECE, Tokenizer
from albert_tf.tokenization.vocabulary_files import WORDPIECE_FILE, read_wordpiece

# A longer word becomes the unknown piece (the original's `max_input_chars_per_word`).
MAX_WORD_LENGTH = 200

# Blocks of CJK ideographs. Hangul and the Japanese syllabaries are elsewhere and split like alphabets.
_CHINESE_BLOCKS = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B820, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)
_REPLACEMENT_CHARACTER = "\ufffd"


class WordPieceTokenizer(Tokenizer):
    """Splits text with a WordPiece vocabulary; see `Tokenizer` for the interface.

    NUL and other control characters are dropped.

    Args:
        vocab_file: a `tokenizer.json`, or a text file with one piece per line, with `[PAD]`, `[UNK]`,
            `[CLS]`, `[SEP]` and `[MASK]`. Only the first field of a line counts and a blank line is the
            piece " ". A repeated piece gets no second id, so later ids differ from line numbers.
        lower_case: whether to lower-case text and strip its accents.

    Raises:
        InputError: the file cannot be read, is not UTF-8 or lacks a special piece.
    """

    file_name: ClassVar[str] = WORDPIECE_FILE

    def __init__(self, vocab_file: str, lower_case: bool = True):
        vocabulary = read_wordpiece(vocab_file)
        self._ids = _number_pieces(vocabulary, vocab_file)
        super().__init__(vocab_file, lower_case, vocabulary, list(self._ids), WORDPIECE)
        self.word_start = np.array(
            [not piece.startswith(CONTINUATION_MARK) for piece in self.pieces]
        )
        self.ordinary_ids = np.setdiff1d(
            np.arange(self.vocab_size, dtype=np.int32), self.special_ids
        )

    def tokenize(self, text: str) -> list[str]:
        """Returns the pieces of a text; a word that the vocabulary cannot spell is one `[UNK]`."""
        words = split_words(text, self.lower_case)
        return [piece for word in words for piece in self._split_word(word)]

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text's pieces."""
        return [self._ids[piece] for piece in self.tokenize(text)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids of a text's pieces, and where in the text they come from; see `Tokenizer`."""
        lengths = [_normalized_length(char, self.lower_case) for char in text]
        # For each normalised character the index of the original one.
        origins = np.repeat(np.arange(len(text)), lengths).tolist()
        ids, spans = [], []
        for word in re.finditer(r"\S+", _normalize(text, self.lower_case)):
            start = word.start()
            for number, piece in enumerate(self._split_word(word.group())):
                end = start + len(piece) - (len(CONTINUATION_MARK) if number else 0)
                if piece == WORDPIECE.unk:
                    end = word.end()
                ids.append(self._ids[piece])
                spans.append((origins[start], _end_of(lengths, origins[end - 1])))
                start = end
        return ids, spans

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the words of ids with spaces between them, without control pieces."""
        silent = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        words = " ".join(self.pieces[id_] for id_ in ids if id_ not in silent)
        return words.replace(f" {CONTINUATION_MARK}", "")

    def _split_word(self, word: str) -> list[str]:
        if len(word) > MAX_WORD_LENGTH:
            return [WORDPIECE.unk]
        pieces = []
        start = 0
        while start < len(word):
            piece = self._longest_piece(word, start)
            if piece is None:
                return [WORDPIECE.unk]
            pieces.append(piece)
            start += len(piece) - (len(CONTINUATION_MARK) if start else 0)
        return pieces

    def _longest_piece(self, word: str, start: int) -> str | None:
        mark = CONTINUATION_MARK if start else ""
        candidates = (mark + word[start:end] for end in range(len(word), start, -1))
        return next((piece for piece in candidates if piece in self._ids), None)


def split_words(text: str, lower_case: bool) -> list[str]:
    """Splits text into words, punctuation marks and Chinese characters."""
    return _normalize(text, lower_case).split()


def _normalize(text: str, lower_case: bool) -> str:
    """Returns a text with white space around its words; its length is the sum of its characters'."""
    text = text.translate(_CLEANED)
    if lower_case:
        text = unicodedata.normalize("NFD", text.lower()).translate(_WITHOUT_ACCENTS)
    return text.translate(_APART)


@functools.cache
def _normalized_length(char: str, lower_case: bool) -> int:
    return len(_normalize(char, lower_case))


def _end_of(lengths: Sequence[int], index: int) -> int:
    """Returns the end of a character and of the dropped ones after it, such as its accents."""
    end = index + 1
    while end < len(lengths) and not lengths[end]:
        end += 1
    return end


def is_control(char: str) -> bool:
    """Returns whether a character is dropped as a control or format character (Cc, Cf)."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char: str) -> bool:
    """Returns whether a character is of category P or an ASCII symbol such as `$`."""
    ascii_symbol = "!" <= char <= "~" and not char.isalnum()
    return ascii_symbol or unicodedata.category(char).startswith("P")


def is_chinese(char: str) -> bool:
    """Returns whether a character is a CJK ideograph."""
    return any(ord(char) in block for block in _CHINESE_BLOCKS)


def is_dropped(char: str) -> bool:
    """Returns whether a character is dropped before anything else happens to the text."""
    return char == _REPLACEMENT_CHARACTER or is_control(char)


def is_accent(char: str) -> bool:
    """Returns whether a character of decomposed text is dropped as an accent."""
    return unicodedata.category(char) == "Mn"


def is_word(char: str) -> bool:
    """Returns whether a character is always a word of its own."""
    return is_punctuation(char) or is_chinese(char)


class _CharacterMap(dict):
    """A table for `str.translate` that calls a function once for each character it meets."""

    def __init__(self, function: Callable[[str], str]):
        super().__init__()
        self._function = function

    def __missing__(self, code_point: int) -> str:
        self[code_point] = self._function(chr(code_point))
        return self[code_point]


_CLEANED = _CharacterMap(lambda char: "" if is_dropped(char) else char)
_WITHOUT_ACCENTS = _CharacterMap(lambda char: "" if is_accent(char) else char)
_APART = _CharacterMap(lambda char: f" {char} " if is_word(char) else char)


def _number_pieces(content: bytes, vocab_file: str) -> dict[str, int]:
    ids: dict[str, int] = {}
    for _, line in files.decode_lines([content], vocab_file, files.decode_strictly):
        fields = line.split()
        ids.setdefault(fields[0] if fields else " ", len(ids))
    return ids
