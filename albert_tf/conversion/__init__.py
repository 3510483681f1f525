"""Makes our models from checkpoints of other formats, and saves them in these formats."""

from albert_tf.conversion.model_loading import load_model
from albert_tf.conversion.saving import WeightType, save_hugging_face, save_tf1_checkpoint

__all__ = ["WeightType", "load_model", "save_hugging_face", "save_tf1_checkpoint"]
