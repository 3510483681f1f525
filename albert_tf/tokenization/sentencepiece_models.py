"""Notes in the file of a SentencePiece model: whether its text keeps accents, and its marked pieces."""

from sentencepiece import sentencepiece_model_pb2

# The end of the name of the model's normalizer.
_KEEPS_ACCENTS = "_keep_accents"


def keeps_accents(model: bytes) -> bool:
    """Returns whether a SentencePiece model is of text with accents, unlike ALBERT's."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return proto.normalizer_spec.name.endswith(_KEEPS_ACCENTS)


def mark_accents(model: bytes) -> bytes:
    """Returns a SentencePiece model that says that it is of text with accents."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.name += _KEEPS_ACCENTS
    return proto.SerializeToString()
