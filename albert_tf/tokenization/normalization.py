"""Normalisation of text, and how it becomes a part of a SentencePiece model.

The published vocabularies were trained on text without accents, most of them on lower-case text, that
the original normalises before SentencePiece does. SentencePiece's own normaliser is a table of
replacements, too. So both become one table: each character is replaced with what the model's table makes
of its normalised form. The model then takes any text, here, in TensorFlow and elsewhere, and returns
places in it.
"""

import functools
import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenization.characters import characters_of_unicode
from albert_tf.tokenization.final_sigma import write_final_sigmas

# A Python string can contain half a surrogate pair (in JSON "\ud800"), which has no UTF-8 form. It is
# replaced as malformed bytes are.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT_CHARACTER = "\ufffd"

_SILENT = 5  # above the level of every message of SentencePiece's C++ code

_PieceType = sentencepiece_model_pb2.ModelProto.SentencePiece


def normalize_text(text: str, lower_case: bool) -> str:
    """Normalises text as `preprocess_text` of the original ALBERT does.

    White space is trimmed and each run of it becomes one space; characters are decomposed (NFKD) and
    combining marks dropped, even if case is kept; then letters become lower-case. A decomposition can add
    spaces ("¨" is a space and a mark); SentencePiece collapses those itself.
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = without_marks(replace_surrogates(text))
    return text.lower() if lower_case else text


def without_marks(text: str) -> str:
    """Returns text in NFKD without its combining marks."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def replace_surrogates(text: str) -> str:
    """Replaces each half of a surrogate pair with U+FFFD."""
    return _LONE_SURROGATE.sub(_REPLACEMENT_CHARACTER, text)


def prepare_text(text: str, lower_case: bool) -> str:
    """Returns text of the same length for a model with normalisation: what its table cannot say."""
    if text.isascii():
        return text
    text = replace_surrogates(text)
    return write_final_sigmas(text, without_marks) if lower_case else text


class Normalizer(NamedTuple):
    """A table that normalises text, and then as a SentencePiece model does.

    Attributes:
        rules: old text -> new text, for each character that changes and for some sequences of
            characters. The longest match wins.
        charsmap: the same as a model's `precompiled_charsmap`.
        expansions: character -> several characters; a part of the rules.
    """

    rules: Mapping[str, str]
    charsmap: bytes
    expansions: Mapping[str, str]


def add_normalization(serialized_model: bytes, lower_case: bool) -> bytes:
    """Returns a SentencePiece model that normalises text by itself, after `prepare_text`."""
    model = sentencepiece_model_pb2.ModelProto.FromString(serialized_model)
    spec = model.normalizer_spec
    rules, spec.precompiled_charsmap, _ = _make_normalizer(spec.precompiled_charsmap, lower_case)
    spec.remove_extra_whitespaces = True
    # SentencePiece would test the model with what its own table made of some texts.
    model.DiscardUnknownFields()
    for piece in model.pieces:
        text = piece.piece
        if piece.type == _PieceType.USER_DEFINED and text not in (
            normalize_text(text, lower_case),
            _replace(text, rules),
        ):
            # Normalised text never has it, but SentencePiece looks for it before it normalises.
            piece.type = _PieceType.UNUSED
    return model.SerializeToString()


def read_normalizer(serialized_model: bytes, lower_case: bool) -> Normalizer:
    """Returns the table that `add_normalization` adds to a model."""
    model = sentencepiece_model_pb2.ModelProto.FromString(serialized_model)
    return _make_normalizer(model.normalizer_spec.precompiled_charsmap, lower_case)


@functools.cache
def _make_normalizer(charsmap: bytes, lower_case: bool) -> Normalizer:
    """Returns the table of `normalize_text` and a model's `precompiled_charsmap`, which may be empty."""
    sentencepiece.set_min_log_level(_SILENT)
    ours = _normalized_characters(lower_case)
    theirs, normalize = {}, str
    if charsmap:
        # SentencePiece 0.2.2 takes the table in a model only, which has to know an unknown piece.
        model = sentencepiece_model_pb2.ModelProto()
        model.normalizer_spec.precompiled_charsmap = charsmap
        model.pieces.add(piece="<unk>", type=_PieceType.UNKNOWN)
        normalizer = sentencepiece.SentencePieceNormalizer(
            model_proto=model,
            add_dummy_prefix=False,
            escape_whitespaces=False,
            remove_extra_whitespaces=False,
        )
        theirs, normalize = dict(normalizer.decompile()), normalizer.normalize

    characters = ours.keys() | {old for old in theirs if len(old) == 1}
    rules = {char: normalize(ours.get(char, char)) for char in characters}
    rules = {old: new for old, new in rules.items() if new != old}
    # Rules that compose what normalisation takes apart, such as Hangul. Among them are all spellings of
    # three letters and more; only those of text in NFKD count, and those whose front is composed.
    sequences = [old for old in theirs if len(old) == 2 or unicodedata.is_normalized("NFKD", old)]
    sequences += [unicodedata.normalize("NFC", old[:-1]) + old[-1] for old in sequences]
    for old in sequences:
        new = normalize(_replace(old, ours))
        if len(old) > 1 and new != _replace(old, rules):
            rules[old] = new
    compiled = sentencepiece.SentencePieceNormalizer(norm_map=list(rules.items()))
    spec = sentencepiece_model_pb2.NormalizerSpec.FromString(compiled.serialized_normalizer_spec())
    expansions = {old: new for old, new in rules.items() if len(old) == 1 < len(new)}
    return Normalizer(rules, spec.precompiled_charsmap, expansions)


def _normalized_characters(lower_case: bool) -> dict[str, str]:
    """Returns what each character that changes becomes by itself."""
    changing = characters_of_unicode(lambda block: normalize_text(block, lower_case) != block)
    normalized = {
        char: " " if char.isspace() else normalize_text(char, lower_case)
        for char in changing
        if not _LONE_SURROGATE.match(char)
    }
    return {old: new for old, new in normalized.items() if new != old}


def _replace(text: str, rules: Mapping[str, str]) -> str:
    """Replaces each character by itself."""
    return "".join(rules.get(char, char) for char in text)
