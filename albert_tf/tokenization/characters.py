"""Tables of characters: what becomes of each of them, and in which class it is.

They follow from this Python's Unicode, and from SentencePiece models, which normalise by a table of
replacements, too. The tokenizers in a graph and in other runtimes are made of these tables.
"""

import functools
import itertools
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenization.interface import WORD_MARK
from albert_tf.tokenization.sentencepiece_tokenizer import normalize_text
from albert_tf.tokenization.vocabulary_files import keeps_accents

# The one letter whose lower case depends on its neighbours: ς ends a word, σ stands elsewhere.
SIGMA, LOWER_SIGMA, FINAL_SIGMA = "Σ", "σ", "ς"

# Number of neighbouring characters that are looked at together before each is looked at.
_BLOCK = 256

_SURROGATES = range(0xD800, 0xE000)  # which no UTF-8 text has


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
def final_sigma_pattern(dropped: frozenset[str] = frozenset()) -> str:
    """Returns a pattern for a sigma that ends a word.

    Such a sigma follows a cased letter and does not precede one; characters such as an apostrophe do not
    count (the Unicode standard, section 3.13), nor do those `dropped` before letters are lower-cased.
    Python's own lower-casing tells the classes.
    """

    def is_final_after(before: str) -> bool:
        return (before + SIGMA).lower().endswith(FINAL_SIGMA)

    def is_cased(char: str) -> bool:
        return is_final_after("1" + char)

    def is_skipped(char: str) -> bool:
        return char in dropped or (is_final_after("A" + char) and not is_cased(char))

    def may_count(block: str) -> bool:
        # Between A and the sigma, a character that is neither cased nor skipped ends the word.
        probes = f"1A{f'{SIGMA}1A'.join(block)}{SIGMA}"
        return FINAL_SIGMA in probes.lower() or not dropped.isdisjoint(block)

    candidates = list(characters_of_unicode(may_count))
    cased, skipped = (character_class(filter(test, candidates)) for test in (is_cased, is_skipped))
    other = f"[^{cased[1:-1]}{skipped[1:-1]}]"
    return f"({cased}{skipped}*){SIGMA}({skipped}*(?:{other}|$))"


@functools.cache
def white_space() -> np.ndarray:
    """Returns the code points that are white space to Python, ascending."""
    return code_points(filter(str.isspace, characters_of_unicode()))


@functools.cache
def normalized_characters(lower_case: bool, keep_accents: bool) -> dict[int, list[int]]:
    """Returns what each character that changes becomes; a capital sigma stays."""
    changing = characters_of_unicode(
        lambda block: normalize_text(block, lower_case, keep_accents) != block
    )
    return {
        ord(char): [ord(part) for part in normalized]
        for char in changing
        if (normalized := _normalize_alone(char, lower_case, keep_accents)) != char
    }


def _normalize_alone(char: str, lower_case: bool, keep_accents: bool) -> str:
    if char.isspace():
        return " "
    normalized = normalize_text(char, False, keep_accents)
    if lower_case:
        normalized = SIGMA.join(part.lower() for part in normalized.split(SIGMA))
    return normalized


def code_points(characters: Iterable[str]) -> np.ndarray:
    """Returns the code points of characters, ascending, int32 (n,)."""
    return np.array(sorted(map(ord, characters)), np.int32)


# What SentencePiece makes of characters


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
