"""From text to words, the way BERT does before it looks at a WordPiece vocabulary.

Words end at white space and at punctuation, and every Chinese character is a word. The rules are
BERT's `BasicTokenizer`.
"""

import unicodedata
from collections.abc import Callable

# Blocks of CJK ideographs. Hangul and the Japanese syllabaries are written in words or have other
# blocks, and are split like alphabets.
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


def is_whitespace(char: str) -> bool:
    """Whether a character counts as a space: tab, line ends and category Zs."""
    return char in "\t\n\r" or unicodedata.category(char) == "Zs"


def is_control(char: str) -> bool:
    """Whether a character is dropped as a control or format character (Cc, Cf)."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char: str) -> bool:
    """Whether a character is a word of its own: category P, and every ASCII symbol such as `$`."""
    ascii_symbol = "!" <= char <= "~" and not char.isalnum()
    return ascii_symbol or unicodedata.category(char).startswith("P")


def is_chinese(char: str) -> bool:
    """Whether a character is a CJK ideograph."""
    return any(ord(char) in block for block in _CHINESE_BLOCKS)


def split_words(text: str, lower_case: bool) -> list[str]:
    """Splits text into words, punctuation marks and Chinese characters.

    Args:
        text: any text.
        lower_case: whether to lower-case it and to drop its accents.
    """
    text = text.translate(_CLEANED)
    if lower_case:
        text = unicodedata.normalize("NFD", text.lower()).translate(_WITHOUT_ACCENTS)
    return text.translate(_PUNCTUATION_APART).split()


class _CharacterMap(dict):
    """A table for `str.translate` that asks a function once for each character it meets."""

    def __init__(self, function: Callable[[str], str]):
        super().__init__()
        self._function = function

    def __missing__(self, code_point: int) -> str:
        self[code_point] = self._function(chr(code_point))
        return self[code_point]


def _clean(char: str) -> str:
    if char == _REPLACEMENT_CHARACTER or is_control(char):
        return ""
    if is_whitespace(char):
        return " "
    return f" {char} " if is_chinese(char) else char


_CLEANED = _CharacterMap(_clean)
_WITHOUT_ACCENTS = _CharacterMap(lambda char: "" if unicodedata.category(char) == "Mn" else char)
_PUNCTUATION_APART = _CharacterMap(lambda char: f" {char} " if is_punctuation(char) else char)
