"""From a trained model to SavedModels."""

from albert_tf.export.saved_model import export_classifier

__all__ = ["export_classifier"]
