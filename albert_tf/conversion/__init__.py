"""Loads checkpoints of other formats into our models, and saves our models in these formats."""

from albert_tf.conversion.checkpoint_loading import (
    LoadReport,
    load_checkpoint,
    load_model,
    read_config,
    stored_labels,
    stored_shape,
)
from albert_tf.conversion.hugging_face import save_hugging_face
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
