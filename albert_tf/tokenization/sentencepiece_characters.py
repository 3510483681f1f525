"""What SentencePiece models do with single characters, which their own tables of replacements say.

The tokenizers in a graph and in other runtimes are made of these tables.
"""

import functools
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenization.interface import WORD_MARK
from albert_tf.tokenization.normalization import normalize_text, normalized_characters
from albert_tf.tokenization.sentencepiece_models import keeps_accents

_SURROGATES = range(0xD800, 0xE000)  # which no UTF-8 text has


class CharacterClasses(NamedTuple):
    """Classes of the characters of normalised text.

    Attributes:
        known: the characters that may become part of a piece, or that SentencePiece may drop. A run of
            other characters is one unknown piece, whatever its length and neighbours. None for a model
            that spells unknown characters in bytes.
        blank: the characters that SentencePiece may drop or treat as white space.
        keep_accents: whether the text has accents.
        words_are_apart: whether each word with a character that is not blank has a piece of its own, and
            its pieces do not depend on the words after it.
    """

    known: frozenset[str] | None
    blank: frozenset[str]
    keep_accents: bool
    words_are_apart: bool


def classify_characters(serialized_model: bytes, lower_case: bool) -> CharacterClasses:
    """Classifies the characters of text that `normalize_text` has normalised."""
    model = sentencepiece_model_pb2.ModelProto.FromString(serialized_model)
    keep_accents = keeps_accents(serialized_model)
    charsmap = model.normalizer_spec.precompiled_charsmap
    replacements = {
        old: new
        for old, new in _read_replacements(charsmap, keep_accents).items()
        if _occurs(old, lower_case, keep_accents)
    }
    pieces = [piece.piece for piece in model.pieces]
    blank = {char for old, new in replacements.items() if not new.strip() for char in old}
    known = {" ", WORD_MARK, *blank, *"".join(pieces)}
    # A character that can combine with others into a known one counts as known.
    size = 0
    while len(known) > size:
        size = len(known)
        for old, new in replacements.items():
            if not known.isdisjoint(old + new):
                known.update(old)
    return CharacterClasses(
        known=None if model.trainer_spec.byte_fallback else frozenset(known),
        blank=frozenset({" ", WORD_MARK, *blank}),
        keep_accents=keep_accents,
        words_are_apart=WORD_MARK in pieces
        and not any(" " in piece or WORD_MARK in piece[1:] for piece in pieces),
    )


def _occurs(text: str, lower_case: bool, keep_accents: bool) -> bool:
    """Returns whether normalised text may contain a text, with or without spaces around it."""
    compact = text.replace(" ", "")
    return normalize_text(compact, lower_case, keep_accents) == compact


@functools.cache
def _read_replacements(charsmap: bytes, keep_accents: bool) -> Mapping[str, str]:
    """Returns SentencePiece's table of replacements, old text -> new text; the longest match wins.

    Unless text keeps accents, old text that NFKD changes, most of the table, is left out.
    """
    if not charsmap:
        return {}
    # SentencePiece 0.2.2 takes the table in a model only, which has to know an unknown piece.
    model = sentencepiece_model_pb2.ModelProto()
    model.normalizer_spec.precompiled_charsmap = charsmap
    model.pieces.add(piece="<unk>", type=model.SentencePiece.UNKNOWN)
    table = sentencepiece.SentencePieceNormalizer(model_proto=model).decompile()
    return {
        old: new for old, new in table if keep_accents or unicodedata.is_normalized("NFKD", old)
    }


def compile_charsmap(lower_case: bool, keep_accents: bool) -> bytes:
    """Returns what `normalize_text` makes of each character, as a `precompiled_charsmap`.

    A capital sigma stays: its lower case depends on its neighbours. White space becomes spaces, which
    the normaliser itself collapses.
    """
    rules = [
        (chr(char), "".join(map(chr, parts)))
        for char, parts in normalized_characters(lower_case, keep_accents).items()
        if char not in _SURROGATES
    ]
    spec = sentencepiece.SentencePieceNormalizer(norm_map=rules).serialized_normalizer_spec()
    return sentencepiece_model_pb2.NormalizerSpec.FromString(spec).precompiled_charsmap
