"""The encoder, and the models that put heads on it."""

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
