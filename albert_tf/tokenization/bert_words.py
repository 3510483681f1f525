"""What becomes of a text before a WordPiece vocabulary splits it: words, as of BERT's `BasicTokenizer`.

Words end at white space and punctuation, and every Chinese character is a word.
"""

import unicodedata
from collections.abc import Callable

from albert_tf.tokenization.lower_case import to_lower

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


def split_words(text: str, lower_case: bool) -> list[str]:
    """Splits text into words, punctuation marks and Chinese characters."""
    return space_words(text, lower_case).split()


def space_words(text: str, lower_case: bool) -> str:
    """Returns a text with white space around its words; its length is the sum of its characters'."""
    return clean_text(text, lower_case).translate(_APART)


def clean_text(text: str, lower_case: bool) -> str:
    """Drops control characters and, with `lower_case`, capitals and accents."""
    text = text.translate(_CLEANED)
    if lower_case:
        text = unicodedata.normalize("NFD", to_lower(text)).translate(_WITHOUT_ACCENTS)
    return text


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
