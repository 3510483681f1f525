"""Classes of characters in this Python's Unicode."""

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator

import numpy as np

# Number of neighbouring characters that are looked at together before each is looked at.
_BLOCK = 256


def characters_of_unicode(may_count: Callable[[str], bool] | None = None) -> Iterator[str]:
    """Yields every character, assigned or not, in ascending order.

    `may_count` tells from a block of neighbouring characters whether any of them matters; other blocks
    are left out. Most of Unicode is ideographs and unassigned.
    """
    code_points = np.arange(sys.maxunicode + 1, dtype="<u4")
    characters = code_points.tobytes().decode("utf-32-le", "surrogatepass")
    if may_count is None:
        return iter(characters)
    starts = range(0, len(characters), _BLOCK)
    blocks = (characters[start : start + _BLOCK] for start in starts)
    return itertools.chain.from_iterable(filter(may_count, blocks))


def character_class(characters: Iterable[str]) -> str:
    """Returns a character class of RE2, PCRE and Oniguruma with exactly these characters."""
    members = np.zeros(sys.maxunicode + 3, bool)  # with a False on either side
    members[[ord(char) + 1 for char in characters]] = True
    runs = np.flatnonzero(members[1:] != members[:-1]).reshape(-1, 2)
    return "[" + "".join(rf"\x{{{start:x}}}-\x{{{end - 1:x}}}" for start, end in runs) + "]"


@functools.cache
def white_space() -> np.ndarray:
    """Returns the code points that are white space to Python, ascending."""
    return code_points(filter(str.isspace, characters_of_unicode()))


def code_points(characters: Iterable[str]) -> np.ndarray:
    """Returns the code points of characters, ascending, int32 (n,)."""
    return np.array(sorted(map(ord, characters)), np.int32)
