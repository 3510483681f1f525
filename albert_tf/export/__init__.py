"""From a trained model to SavedModels."""

from albert_tf.export.saved_model import (
    export_classifier,
    export_multiple_choice,
    export_regressor,
)

__all__ = ["export_classifier", "export_multiple_choice", "export_regressor"]
