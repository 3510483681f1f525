"""The user's own files: one row of the table of tasks that the files themselves complete."""

import dataclasses
import string
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.data.fine_tuning.task import Task, TaskKind
from albert_tf.data.fine_tuning.tsv import Columns, Example, Labels, Scores, read_examples
from albert_tf.errors import InputError
from albert_tf.files import read_lines

OWN_TASK = Task(name="tsv", metrics=("accuracy",))

_CHOICE = "choice_"
# What makes the row whole, by the kind that the files are of.
_METRICS: dict[TaskKind, tuple[str, ...]] = {
    "classification": ("accuracy",),
    "regression": ("pearson", "spearman"),
    "multiple_choice": ("accuracy",),
}


def complete_task(kind: TaskKind, labels: Labels) -> Task:
    """Returns the row of the user's own task.

    Args:
        kind: what is predicted.
        labels: the labels that exist; None where the training file decides.
    """
    return dataclasses.replace(OWN_TASK, kind=kind, metrics=_METRICS[kind], labels=labels)


def recognise_task(path: str, label_type: str) -> Task:
    """Tells from the training file and `--label_type` what is predicted.

    Args:
        path: the training file; with columns `choice_a`, `choice_b`, ... it is multiple choice.
        label_type: `string` or `float`.

    Raises:
        InputError: the file is missing, or there is one choice, or one letter is left out.
    """
    choices = _choice_columns(path, "train")
    if label_type == "float":
        if choices:
            raise InputError(
                f"--label_type=float: {path} has the column '{choices[0]}'; the label of multiple "
                "choice is a letter"
            )
        return complete_task("regression", Scores())
    if choices:
        return complete_task("multiple_choice", tuple(string.ascii_uppercase[: len(choices)]))
    return complete_task("classification", None)


def read_own(path: str, split: str, task: Task) -> list[Example]:
    """Reads a file with a header row: `label`, `text_a` and, for pairs, `text_b`.

    For multiple choice `text_a` is what the question is about, `text_b` the question, `choice_a`,
    `choice_b`, ... the answers, and the label is the letter of one: A, B, ... The columns may stand in
    any order among others; a test file may do without labels.

    Args:
        path: the file that the flag `--<split>_file` names.
        split: `train`, `dev` or `test`.
        task: from `recognise_task` or `complete_task`.

    Raises:
        InputError: the file is missing, or `albert_tf.data.fine_tuning.tsv.read_examples` refuses it.
    """
    _check_exists(path, split)
    choices = ()
    if task.kind == "multiple_choice":
        choices = tuple(_CHOICE + letter.lower() for letter in task.labels)
        found = _choice_columns(path, split)
        if len(found) > len(choices):
            raise InputError(
                f"--{split}_file={path}: has {len(found)} choices; the training file has "
                f"{len(choices)}"
            )
    optional = ("text_b", "label") if split == "test" else ("text_b",)
    columns = Columns(
        label="label", text_a="text_a", text_b="text_b", choices=choices, optional=optional
    )
    return read_examples(path, columns, split, task.labels)


def collect_labels(examples: Sequence[Example], path: str) -> tuple[str, ...]:
    """Returns the labels of a training file, sorted; their order gives the class ids.

    Args:
        examples: its rows.
        path: the file, for the message.

    Raises:
        InputError: all rows have the same label.
    """
    labels = sorted({example.label for example in examples})
    if len(labels) < 2:
        raise InputError(
            f"--train_file={path}: every row has the label '{labels[0]}'; "
            "expected two labels or more"
        )
    return tuple(labels)


def _choice_columns(path: str, split: str) -> list[str]:
    """Returns the columns `choice_a`, `choice_b`, ... of a file's header row, sorted."""
    _check_exists(path, split)
    header = next((line for _, line in read_lines(path) if line), "")
    found = sorted({name for name in header.split("\t") if name.startswith(_CHOICE)})
    expected = [_CHOICE + letter for letter in string.ascii_lowercase[: max(2, len(found))]]
    if found and found != expected:
        raise InputError(
            f"--{split}_file={path}: the header row has {', '.join(found)}; expected choice_a, "
            "choice_b and so on, without a gap"
        )
    return found


def _check_exists(path: str, split: str) -> None:
    if not tf.io.gfile.exists(path):
        raise InputError(f"--{split}_file: no file '{path}'")
