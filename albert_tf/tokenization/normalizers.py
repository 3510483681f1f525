"""The normalizers of a `tokenizer.json`, in the form of the library tokenizers, that repeat our rules.

`hugging_face_tokenizer` writes them, and `tokenizer_json` knows them again.
"""

import base64
from collections.abc import Iterator
from typing import Any

from albert_tf.tokenization.character_tables import (
    character_class,
    combining_marks,
    replace_normalizer,
    white_space,
)
from albert_tf.tokenization.lower_case import lower_case_normalizers

_Json = dict[str, Any]


def sentencepiece_normalizers(
    lower_case: bool, keep_accents: bool, charsmap: bytes, composes: bool
) -> Iterator[_Json]:
    """Yields the normalizers of `normalize_text` and SentencePiece.

    `charsmap` is the model's table of replacements, and `composes` says whether it composes characters.
    """
    yield _spaces()
    if not keep_accents:
        yield {"type": "NFKD"}
        yield replace_normalizer(character_class(combining_marks()), "")
    if lower_case:
        yield from lower_case_normalizers()
    if charsmap:
        if composes:
            # The map composes Hangul; the library's reading of it knows single characters only.
            yield {"type": "NFC"}
        encoded = base64.b64encode(charsmap).decode()
        yield {"type": "Precompiled", "precompiled_charsmap": encoded}
    yield _spaces()
    # A space at the left becomes a word mark.
    yield {"type": "Strip", "strip_left": False, "strip_right": True}


def wordpiece_normalizers(lower_case: bool) -> Iterator[_Json]:
    """Yields the normalizers of `split_words`."""
    # The clean-up of their `BertNormalizer` drops unassigned characters, too.
    yield replace_normalizer(r"(?![\t\n\r])[\p{Cc}\p{Cf}\ufffd]", "")
    yield {
        "type": "BertNormalizer",
        "clean_text": False,
        "handle_chinese_chars": True,
        "strip_accents": False,
        "lowercase": False,
    }
    if lower_case:
        yield from lower_case_normalizers()
        yield {"type": "NFD"}
        yield replace_normalizer(r"\p{Mn}", "")


def _spaces() -> _Json:
    r"""Replaces each run of Python's white space by a space; `\s` differs between the libraries."""
    return replace_normalizer(f"{character_class(map(chr, white_space()))}+", " ")
