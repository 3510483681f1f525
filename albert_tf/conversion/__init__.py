"""Checkpoints of every kind into a model, and a model into checkpoints of every kind."""

from albert_tf.conversion.hugging_face import save_hugging_face
from albert_tf.conversion.loading import (
    LoadReport,
    load_checkpoint,
    load_model,
    read_config,
    stored_labels,
    stored_shape,
)
from albert_tf.conversion.tf1 import save_tf1_checkpoint

__all__ = [
    "LoadReport",
    "load_checkpoint",
    "load_model",
    "read_config",
    "save_hugging_face",
    "save_tf1_checkpoint",
    "stored_labels",
    "stored_shape",
]
