"""Normalises text for SentencePiece.

ALBERT's vocabularies were trained on text without accents, the published ones on lower-case text. Text
that is not normalised in the same way becomes unknown pieces.
"""

import re
import unicodedata

# A Python string can contain half a surrogate pair (in JSON "\ud800"), which has no UTF-8 form. It is
# replaced as malformed bytes are.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT_CHARACTER = "\ufffd"


def normalize_text(text: str, lower_case: bool) -> str:
    """Normalises text as `preprocess_text` of the original ALBERT does.

    White space is trimmed and each run of it becomes one space; characters are decomposed (NFKD) and
    combining marks dropped, even if case is kept; then letters become lower-case.

    Args:
        text: any text.
        lower_case: whether the vocabulary was trained on lower-case text.

    Returns:
        The normalised text. A decomposition can add spaces ("¨" is a space and a mark); SentencePiece
        collapses those itself.
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = _without_marks(_LONE_SURROGATE.sub(_REPLACEMENT_CHARACTER, text))
    return text.lower() if lower_case else text


def original_spans(text: str) -> list[tuple[int, int]]:
    """Finds the origin of the characters of a normalised text.

    A dropped combining mark belongs to the character before it. A space comes from the whole run of white
    space that it replaces.

    Args:
        text: any text.

    Returns:
        For each character of `normalize_text(text, ...)`, which has the same length in either case, the
        first original character and the one after the last.
    """
    words = [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]
    # Original characters that leave something, and the number of characters that they leave.
    kept: list[tuple[int, int]] = []
    for number, (start, end) in enumerate(words):
        if number:
            kept.append((words[number - 1][1], 1))
        counts = ((index, len(_without_marks(text[index]))) for index in range(start, end))
        kept += ((index, count) for index, count in counts if count)
    boundaries = [index for index, _ in kept] + [end for _, end in words[-1:]]
    return [
        (start, end)
        for (start, count), end in zip(kept, boundaries[1:], strict=True)
        for _ in range(count)
    ]


def _without_marks(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char))
