"""The encoder, and the models that put heads on it."""

import albert_tf
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.encoder_with_heads import (
    AlbertClassifier,
    AlbertEmbedder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertTokenClassifier,
)
from albert_tf.models.span_labelers import AlbertConditionalSpanLabeler, AlbertSpanLabeler

__all__ = [
    "AlbertClassifier",
    "AlbertConditionalSpanLabeler",
    "AlbertEmbedder",
    "AlbertEncoder",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertSpanLabeler",
    "AlbertTokenClassifier",
]

# Whoever imports a model can load `.keras` files, which may also hold classes that no model knows.
for _name in ("AdamWeightDecay", "Preprocessor"):
    getattr(albert_tf, _name)
