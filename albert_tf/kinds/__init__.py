"""Kinds of tasks: one file decides all that differs between classes, scores, spans and so on."""

from albert_tf.kinds.classification import Classes, Classification
from albert_tf.kinds.embedding import Embedding
from albert_tf.kinds.kind import Kind
from albert_tf.kinds.multi_label import LabelSets, MultiLabel
from albert_tf.kinds.multiple_choice import MultipleChoice
from albert_tf.kinds.question_answering import Answers, QuestionAnswering
from albert_tf.kinds.registry import KINDS, register
from albert_tf.kinds.regression import Regression, Scores
from albert_tf.kinds.token_classification import TokenClassification

__all__ = [
    "KINDS",
    "Answers",
    "Classes",
    "Classification",
    "Embedding",
    "Kind",
    "LabelSets",
    "MultiLabel",
    "MultipleChoice",
    "QuestionAnswering",
    "Regression",
    "Scores",
    "TokenClassification",
    "register",
]
