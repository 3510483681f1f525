"""What happens to text before SentencePiece sees it.

ALBERT's vocabularies were trained on text without accents, and the published ones on lower-case text.
What is not normalised in the same way turns into unknown pieces.
"""

import re
import unicodedata

# A Python string can hold half a surrogate pair (JSON spells one "\ud800"). It is no character and
# has no UTF-8 form; it becomes what decoding makes of malformed bytes.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT_CHARACTER = "\ufffd"


def normalize_text(text: str, lower_case: bool) -> str:
    """Normalises text as `preprocess_text` of the original ALBERT does.

    White space is trimmed and each run of it becomes one space; characters are decomposed (NFKD) and
    combining marks dropped, also where case is kept; then letters become lower-case.

    Args:
        text: any text.
        lower_case: whether the vocabulary is one of lower-case text.

    Returns:
        The normalised text. A decomposition can bring new spaces in ("¨" is a space and a mark);
        SentencePiece collapses those itself.
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = _LONE_SURROGATE.sub(_REPLACEMENT_CHARACTER, text)
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in decomposed if not unicodedata.combining(char))
    return text.lower() if lower_case else text
