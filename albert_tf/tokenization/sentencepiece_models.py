"""What the file of a SentencePiece model says of accents: that texts keep them, how to compose them."""

import functools
import sys
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

# The end of the name of the model's normalizer.
_KEEPS_ACCENTS = "_keep_accents"


def keeps_accents(model: bytes) -> bool:
    """Returns whether a SentencePiece model is of text with accents, unlike ALBERT's."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return proto.normalizer_spec.name.endswith(_KEEPS_ACCENTS)


def mark_accents(model: bytes) -> bytes:
    """Returns a SentencePiece model that says that it is of text with accents, which it composes."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.name += _KEEPS_ACCENTS
    # Text with accents is decomposed before it is split.
    if not proto.normalizer_spec.precompiled_charsmap:
        proto.normalizer_spec.precompiled_charsmap = composing_charsmap()
    return proto.SerializeToString()


@functools.cache
def composing_charsmap() -> bytes:
    """Returns a table of replacements that composes characters, for a vocabulary that has none."""
    composed = (chr(code_point) for code_point in range(sys.maxunicode + 1))
    rules = [
        (unicodedata.normalize("NFD", char), char)
        for char in composed
        if unicodedata.is_normalized("NFC", char) and not unicodedata.is_normalized("NFD", char)
    ]
    spec = sentencepiece.SentencePieceNormalizer(norm_map=rules).serialized_normalizer_spec()
    return sentencepiece_model_pb2.NormalizerSpec.FromString(spec).precompiled_charsmap
