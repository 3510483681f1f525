"""Finds the characters that SentencePiece has no piece for, and those that it may drop.

Both follow from the pieces and from SentencePiece's own normalisation, a table of replacements in each
model. The tokenizer in a graph uses them to shorten texts without changing their ids.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenization.normalization import normalize_text
from albert_tf.tokenization.sentencepiece_tokenizer import WORD_MARK


class CharacterClasses(NamedTuple):
    """Classes of the characters of normalised text.

    Attributes:
        known: the characters that may become part of a piece, or that SentencePiece may drop. A run of
            other characters is one unknown piece, whatever its length and neighbours. None for a model
            that spells unknown characters in bytes.
        blank: the characters that SentencePiece may drop or treat as white space.
        words_are_apart: whether each word with a character that is not blank has a piece of its own, and
            its pieces do not depend on the words after it.
    """

    known: frozenset[str] | None
    blank: frozenset[str]
    words_are_apart: bool


def classify_characters(serialized_model: bytes, lower_case: bool) -> CharacterClasses:
    """Classifies the characters of text that `normalize_text` has normalised."""
    model = sentencepiece_model_pb2.ModelProto.FromString(serialized_model)
    replacements = {
        old: new
        for old, new in _read_replacements(model.normalizer_spec.precompiled_charsmap).items()
        if _occurs(old, lower_case)
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
        words_are_apart=WORD_MARK in pieces
        and not any(" " in piece or WORD_MARK in piece[1:] for piece in pieces),
    )


def _occurs(text: str, lower_case: bool) -> bool:
    """Returns whether normalised text may contain a text, with or without spaces around it."""
    compact = text.replace(" ", "")
    return normalize_text(compact, lower_case) == compact


@functools.cache
def _read_replacements(charsmap: bytes) -> Mapping[str, str]:
    """Returns SentencePiece's table of replacements, old text -> new text; the longest match wins.

    The table consists of the size of a trie in bytes, the trie, and the new texts, each with a final NUL.
    The trie is a double array of Darts-clone (https://github.com/s-yata/darts-clone). A unit has 32 bits:
    the byte that leads to it, whether a key ends there, and where the units of the following bytes are. A
    key's value is the offset of its new text.
    """
    if not charsmap:
        return {}
    size = int.from_bytes(charsmap[:4], "little")
    units = np.frombuffer(charsmap, "<u4", size // 4, offset=4)
    texts = charsmap[4 + size :]
    labels = np.arange(1, 256, dtype=np.uint32)
    replacements = {}
    level = {_offset(units[0]): b""}  # base of the following units -> bytes up to there
    while level:
        following = np.array(list(level), np.uint32)[:, None] ^ labels
        prefixes = list(level.values())
        level = {}
        for row, column in np.argwhere(units[following] & 0x800000FF == labels):
            index = following[row, column]
            base = int(index ^ _offset(units[index]))
            level[base] = prefix = prefixes[row] + bytes([labels[column]])
            if units[index] >> 8 & 1:
                start = units[base] & 0x7FFFFFFF
                new = texts[start : texts.index(b"\0", start)]
                replacements[prefix.decode()] = new.decode()
    return replacements


def _offset(unit: np.uint32) -> int:
    return (int(unit) >> 10) << ((int(unit) & 0x200) >> 6)
