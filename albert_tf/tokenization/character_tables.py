"""Characters of Unicode, and classes of them for regular expressions.

They follow this Python's Unicode. The tokenizers in a graph and in other runtimes are made of them.
"""

import functools
import itertools
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

# Number of neighbouring characters that are looked at together before each is looked at.
_BLOCK = 256


def characters_of_unicode(may_count: Callable[[str], bool] | None = None) -> Iterator[str]:
    """Yields every character, assigned or not, in ascending order.

    `may_count` tells from a block of neighbouring characters whether any of them matters; other blocks
    are left out. Most of Unicode is ideographs and unassigned.
    """
    all_code_points = np.arange(sys.maxunicode + 1, dtype="<u4")
    characters = all_code_points.tobytes().decode("utf-32-le", "surrogatepass")
    if may_count is None:
        return iter(characters)
    starts = range(0, len(characters), _BLOCK)
    blocks = (characters[start : start + _BLOCK] for start in starts)
    return itertools.chain.from_iterable(block for block in blocks if may_count(block))


def code_points(characters: Iterable[str]) -> np.ndarray:
    """Returns the code points of characters, ascending, int32 (n,)."""
    return np.array(sorted(map(ord, characters)), np.int32)


@functools.cache
def white_space() -> np.ndarray:
    """Returns the code points that are white space to Python, ascending."""
    return code_points(filter(str.isspace, characters_of_unicode()))


def character_class(characters: Iterable[str]) -> str:
    """Returns a character class of RE2, Oniguruma and JavaScript with exactly these characters."""
    members = np.zeros(sys.maxunicode + 3, bool)  # with a False on either side
    members[[ord(char) + 1 for char in characters]] = True
    runs = np.flatnonzero(members[1:] != members[:-1]).reshape(-1, 2)
    ranges = (f"{_class_member(start)}-{_class_member(end - 1)}" for start, end in runs)
    return f"[{''.join(ranges)}]"


def _class_member(code_point: int) -> str:
    # The libraries have no escape for code points in common, and JavaScript refuses needless escapes.
    char = chr(code_point)
    return "\\" + char if char in r"[\]^-" else char


@functools.cache
def combining_marks() -> Mapping[str, int]:
    """Returns the characters with a combining class other than 0, and their classes."""
    classes = ((char, unicodedata.combining(char)) for char in characters_of_unicode())
    return {char: number for char, number in classes if number}


def mark_order_replacements(group: str = "\\") -> Iterator[tuple[str, str]]:
    r"""Yields patterns that put marks in the order of their classes, and what replaces each.

    For runtimes that cannot sort. A mark that stands twice among others may remain in its place. `group`
    comes before the number of a group: a backslash in RE2, `$` in OpenVINO.
    """
    marks = combining_marks()
    *numbers, _ = sorted({*marks.values()})
    for number in numbers:
        later = character_class(char for char, own in marks.items() if own > number)
        these = character_class(char for char, own in marks.items() if own == number)
        yield f"({later}+)({these}+)", f"{group}2{group}1"


def replace_normalizer(pattern: str, content: str) -> dict[str, Any]:
    """Returns a normalizer of a `tokenizer.json` that replaces what matches."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}
