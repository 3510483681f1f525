"""From a trained model to what is served."""

from albert_tf.export.exported_model import ExportedModel
from albert_tf.export.models import (
    export_classifier,
    export_multiple_choice,
    export_question_answering,
    export_regressor,
)
from albert_tf.export.reusable import export_reusable
from albert_tf.export.writing import ExportDetails

__all__ = [
    "ExportDetails",
    "ExportedModel",
    "export_classifier",
    "export_multiple_choice",
    "export_question_answering",
    "export_regressor",
    "export_reusable",
]
