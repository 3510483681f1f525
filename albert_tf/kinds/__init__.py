"""Kinds of tasks: one file decides all that differs between classes, scores, spans and so on."""

import string

from albert_tf.data.fine_tuning.columns import choice_columns, find_columns
from albert_tf.data.fine_tuning.label_sets import find_label_names
from albert_tf.data.fine_tuning.opened_tables import open_table
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError
from albert_tf.kinds.classification import Classes, Classification
from albert_tf.kinds.embedding import Embedding
from albert_tf.kinds.kind import Kind, Quality
from albert_tf.kinds.multi_label import LabelSets, MultiLabel
from albert_tf.kinds.multiple_choice import MultipleChoice
from albert_tf.kinds.question_answering import Answers, QuestionAnswering
from albert_tf.kinds.registry import KINDS, register
from albert_tf.kinds.regression import Regression, Scores
from albert_tf.kinds.token_classification import TokenClassification

# The kinds that `recognise` returns.
OWN_KINDS = ("classification", "regression", "multiple_choice", "multi_label")

__all__ = [
    "KINDS",
    "OWN_KINDS",
    "Answers",
    "Classes",
    "Classification",
    "Embedding",
    "Kind",
    "LabelSets",
    "MultiLabel",
    "MultipleChoice",
    "Quality",
    "QuestionAnswering",
    "Regression",
    "Scores",
    "TokenClassification",
    "recognise",
    "register",
]


def recognise(table: Table, kind: str) -> Kind:
    """Returns the kind that a training set defines, without its labels; `kind` is one of `OWN_KINDS`.

    With `classification` the columns decide: with `choice_a`, `choice_b`, ... it is multiple choice; with
    several columns of labels, lists in one, or a separator of labels, each row may have several labels.
    """
    table = open_table(table, "train")
    choices, names = choice_columns(table), find_label_names(table)
    if choices and kind in (Regression.name, MultiLabel.name):
        raise InputError(
            f"{table.name}: has the column '{choices[0]}'; the label of multiple choice is a letter, "
            f"not a {'score' if kind == Regression.name else 'set'}"
        )
    if kind == MultipleChoice.name and not choices:
        raise InputError(f"{table.name}: has no columns choice_a, choice_b, ...")
    if names and kind == Regression.name:
        raise InputError(
            f"{table.name}: has columns or vectors of the labels {', '.join(names)}; a score cannot be a "
            "set of labels"
        )
    if kind == Regression.name:
        return Regression()
    if choices:
        return MultipleChoice(labels=tuple(string.ascii_uppercase[: len(choices)]))
    if names or kind == MultiLabel.name or table.names.label_separator is not None:
        return MultiLabel(labels=names)
    label = table.columns.index(find_columns(table).label)
    # A list with one name is a class, as annotation programs write it.
    has_sets = any(isinstance(row[label], list) and len(row[label]) != 1 for row in table.rows)
    return MultiLabel() if has_sets else Classification()
