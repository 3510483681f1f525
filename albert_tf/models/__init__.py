"""The encoder, and the models that put heads on it."""

from albert_tf.models.classifier import AlbertClassifier
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer

__all__ = ["AlbertClassifier", "AlbertEncoder", "AlbertPretrainer"]
