"""From a trained model to SavedModels."""

from albert_tf.export.question_answering import AnswerRule
from albert_tf.export.reusable import export_reusable
from albert_tf.export.saved_model import (
    export_classifier,
    export_multiple_choice,
    export_question_answering,
    export_regressor,
)

__all__ = [
    "AnswerRule",
    "export_classifier",
    "export_multiple_choice",
    "export_question_answering",
    "export_regressor",
    "export_reusable",
]
