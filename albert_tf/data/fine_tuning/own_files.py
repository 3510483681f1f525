"""The user's own files: a row of the table of tasks that is completed from the files."""

import dataclasses
import string
from collections.abc import Sequence

from albert_tf.data.fine_tuning.task import Task, TaskKind
from albert_tf.data.fine_tuning.tsv import (
    Columns,
    Example,
    Labels,
    Scores,
    Table,
    make_examples,
)
from albert_tf.errors import InputError

OWN_TASK = Task(name="tsv", metrics=("accuracy",))
TAGGING_TASK = Task(
    name="token_classification", metrics=("f1", "precision", "recall"), kind="token_classification"
)

_CHOICE = "choice_"
_METRICS: dict[TaskKind, tuple[str, ...]] = {
    "classification": ("accuracy",),
    "regression": ("pearson", "spearman"),
    "multiple_choice": ("accuracy",),
}


def complete_task(kind: TaskKind, labels: Labels) -> Task:
    """Returns the row of the user's own task.

    Args:
        kind: kind of the task.
        labels: the labels that exist; None if the training file decides.
    """
    return dataclasses.replace(OWN_TASK, kind=kind, metrics=_METRICS[kind], labels=labels)


def recognise_task(table: Table, label_type: str) -> Task:
    """Returns the task that the training file and the type of its labels define.

    Args:
        table: the training file; with columns `choice_a`, `choice_b`, ... it is multiple choice.
        label_type: `string` or `float`.

    Raises:
        InputError: there is only one choice, or a letter is left out, or choices have scores.
    """
    choices = _choice_columns(table)
    if label_type == "float":
        if choices:
            raise InputError(
                f"{table.path}: has the column '{choices[0]}'; the label of multiple choice is a letter, "
                "not a score"
            )
        return complete_task("regression", Scores())
    if choices:
        return complete_task("multiple_choice", tuple(string.ascii_uppercase[: len(choices)]))
    return complete_task("classification", None)


def read_own(table: Table, split: str, task: Task) -> list[Example]:
    """Makes examples of a file with a header row: `label`, `text_a` and, for pairs, `text_b`.

    For multiple choice `text_a` is the passage, `text_b` the question, `choice_a`, `choice_b`, ... are
    the answers, and the label is the letter of one: A, B, ... The columns may be in any order, among
    others. A test file may lack labels.

    Args:
        table: the file.
        split: `train`, `dev` or `test`.
        task: from `recognise_task` or `complete_task`.

    Raises:
        InputError: `albert_tf.data.fine_tuning.tsv.make_examples` refuses the file, or there are more
            choices than the task has.
    """
    choices = ()
    if task.kind == "multiple_choice":
        choices = tuple(_CHOICE + letter.lower() for letter in task.labels)
        found = _choice_columns(table)
        if len(found) > len(choices):
            raise InputError(
                f"{table.path}: has {len(found)} choices; the training file has {len(choices)}"
            )
    optional = ("text_b", "label") if split == "test" else ("text_b",)
    columns = Columns(
        label="label", text_a="text_a", text_b="text_b", choices=choices, optional=optional
    )
    return make_examples(table, columns, split, task.labels)


def collect_labels(examples: Sequence[Example], path: str) -> tuple[str, ...]:
    """Returns the labels of a training file, sorted; their order gives the class ids.

    Args:
        examples: rows of the file.
        path: the file, for the message.

    Raises:
        InputError: all rows have the same label.
    """
    labels = sorted({example.label for example in examples})
    if len(labels) < 2:
        raise InputError(
            f"{path}: every row has the label '{labels[0]}'; expected two labels or more"
        )
    return tuple(labels)


def _choice_columns(table: Table) -> list[str]:
    """Returns the columns `choice_a`, `choice_b`, ... of a file's header row, sorted."""
    found = sorted({name for name in table.header if name.startswith(_CHOICE)})
    expected = [_CHOICE + letter for letter in string.ascii_lowercase[: max(2, len(found))]]
    if found and found != expected:
        raise InputError(
            f"{table.path}: the header row has {', '.join(found)}; expected choice_a, choice_b and so "
            "on, without a gap"
        )
    return found
