"""The encoder, and the models that put heads on it."""

from albert_tf.models.classifier import AlbertClassifier
from albert_tf.models.conditional_span_labeler import AlbertConditionalSpanLabeler
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.multiple_choice import AlbertMultipleChoice
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.models.span_labeler import AlbertSpanLabeler

__all__ = [
    "AlbertClassifier",
    "AlbertConditionalSpanLabeler",
    "AlbertEncoder",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertSpanLabeler",
]
