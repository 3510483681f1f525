"""What becomes of a text before a SentencePiece vocabulary splits it, as in the original ALBERT.

The form for TensorFlow graphs is in `graph_normalization`, that of `tokenizer.json` in
`hugging_face_tokenizer`; both are made of `normalized_characters` or of the same classes of characters.
"""

import functools
import re
import unicodedata

from albert_tf.tokenization.character_tables import characters_of_unicode
from albert_tf.tokenization.lower_case import SIGMA, to_lower

# A Python string can contain half a surrogate pair (in JSON "\ud800"), which has no UTF-8 form. It is
# replaced as malformed bytes are.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT_CHARACTER = "\ufffd"


def normalize_text(text: str, lower_case: bool, keep_accents: bool = False) -> str:
    """Normalises text as `preprocess_text` of the original ALBERT does.

    White space is trimmed and each run of it becomes one space; characters are decomposed (NFKD) and
    combining marks dropped, even if case is kept; then letters become lower-case. A decomposition can add
    spaces ("¨" is a space and a mark); SentencePiece collapses those itself.

    With `keep_accents`, characters are decomposed canonically (NFD), so that all spellings of a letter
    with marks are one, and SentencePiece composes them by the table of its vocabulary.
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = _LONE_SURROGATE.sub(_REPLACEMENT_CHARACTER, text)
        text = unicodedata.normalize("NFD", text) if keep_accents else _strip_marks(text)
    return to_lower(text) if lower_case else text


def _strip_marks(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def original_spans(
    text: str, lower_case: bool = True, keep_accents: bool = False
) -> list[tuple[int, int]]:
    """Returns the origin, start and end, of each character of `normalize_text(text, ...)`.

    A dropped combining mark belongs to the character before it. A space comes from the whole run of white
    space that it replaces.
    """
    words = [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]
    # Original characters that leave something, and the number of characters that they leave.
    kept: list[tuple[int, int]] = []
    for number, (start, end) in enumerate(words):
        if number:
            kept.append((words[number - 1][1], 1))
        for index in range(start, end):
            if count := len(normalize_text(text[index], lower_case, keep_accents)):
                kept.append((index, count))
    boundaries = [index for index, _ in kept] + [end for _, end in words[-1:]]
    return [
        (start, end)
        for (start, count), end in zip(kept, boundaries[1:], strict=True)
        for _ in range(count)
    ]


@functools.cache
def normalized_characters(lower_case: bool, keep_accents: bool) -> dict[int, list[int]]:
    """Returns what each character that changes becomes; a capital sigma stays."""

    def normalize_alone(char: str) -> str:
        if char.isspace():
            return " "
        cased = normalize_text(char, False, keep_accents)
        return cased if SIGMA in cased else normalize_text(char, lower_case, keep_accents)

    changing = characters_of_unicode(
        lambda block: normalize_text(block, lower_case, keep_accents) != block
    )
    return {
        ord(char): [ord(part) for part in normalized]
        for char in changing
        if (normalized := normalize_alone(char)) != char
    }
