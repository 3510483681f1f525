"""From a trained model to SavedModels."""

from albert_tf.export.exported_model import ExportedModel
from albert_tf.export.question_answering import AnswerRule
from albert_tf.export.saved_model import (
    ExportDetails,
    export_classifier,
    export_multiple_choice,
    export_question_answering,
    export_regressor,
)

__all__ = [
    "AnswerRule",
    "ExportDetails",
    "ExportedModel",
    "export_classifier",
    "export_multiple_choice",
    "export_question_answering",
    "export_regressor",
]
