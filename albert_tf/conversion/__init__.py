"""Checkpoints of every kind into a model, and a model into checkpoints of every kind."""

from albert_tf.conversion.loading import LoadReport, load_checkpoint, load_model
from albert_tf.conversion.tf1 import save_tf1_checkpoint

__all__ = [
    "LoadReport",
    "load_checkpoint",
    "load_model",
    "save_tf1_checkpoint",
]
