"""The user's own files: a row of the table of tasks that is completed from the files."""

import dataclasses
import string
from collections.abc import Sequence

from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.tsv import (
    LABEL_SEPARATOR,
    Columns,
    Example,
    Labels,
    LabelSets,
    Scores,
    Table,
    make_examples,
)
from albert_tf.errors import InputError

OWN_TASK = Task(name="tsv", metrics=("accuracy",))
_CHOICE = "choice_"
_LABEL = "label_"
_METRICS: dict[str, tuple[str, ...]] = {
    "classification": ("accuracy",),
    "regression": ("pearson", "spearman"),
    "multiple_choice": ("accuracy",),
    # Average precision chooses the checkpoint: unlike F1 it needs no thresholds.
    "multi_label": ("mean_average_precision", "micro_f1", "macro_f1"),
}


# The kinds that the user's own file may be of.
OWN_KINDS = tuple(_METRICS)


def complete_task(kind: str, labels: Labels) -> Task:
    """Returns the row of the user's own task.

    Args:
        kind: kind of the task.
        labels: the labels that exist; None if the training file decides.
    """
    return dataclasses.replace(OWN_TASK, kind=kind, metrics=_METRICS[kind], labels=labels)


def recognise_task(table: Table, label_type: str) -> Task:
    """Returns the task that the training file and the type of its labels define.

    Args:
        table: the training file; with columns `choice_a`, `choice_b`, ... it is multiple choice, with
            columns `label_<name>` each row may have several labels.
        label_type: `string`, `float` or `set`.

    Raises:
        InputError: there is only one choice, or a letter is left out, or the columns contradict the type.
    """
    choices, names = _choice_columns(table), _label_names(table)
    if choices and label_type != "string":
        raise InputError(
            f"{table.path}: has the column '{choices[0]}'; the label of multiple choice is a letter, "
            f"not a {'score' if label_type == 'float' else label_type}"
        )
    if names and label_type == "float":
        raise InputError(
            f"{table.path}: has the column '{_LABEL}{names[0]}' and no column 'label'; a score cannot be "
            "a set of labels"
        )
    if label_type == "float":
        return complete_task("regression", Scores())
    if names or label_type == "set":
        return complete_task("multi_label", LabelSets(names or None))
    if choices:
        return complete_task("multiple_choice", tuple(string.ascii_uppercase[: len(choices)]))
    return complete_task("classification", None)


def read_own(table: Table, split: str, task: Task) -> list[Example]:
    """Makes examples of a file with a header row: `label`, `text_a` and, for pairs, `text_b`.

    For multiple choice `text_a` is the passage, `text_b` the question, `choice_a`, `choice_b`, ... are
    the answers, and the label is the letter of one: A, B, ... Sets of labels have `|` between two labels
    or, instead of `label`, a column `label_<name>` of 0 and 1 for each; only then a set may be empty. The
    columns may be in any order, among others. A test file may lack labels.

    Args:
        table: the file.
        split: `train`, `dev` or `test`.
        task: from `recognise_task` or `complete_task`.

    Raises:
        InputError: `albert_tf.data.fine_tuning.tsv.make_examples` refuses the file, or there are more
            choices than the task has, or other columns of labels.
    """
    choices, labels = (), task.labels
    if task.kind == "multi_label" and _label_names(table):
        table = _join_label_columns(table, task.labels.names)
        labels = dataclasses.replace(labels, may_be_empty=True)
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
    return make_examples(table, columns, split, labels)


def collect_labels(examples: Sequence[Example], path: str, kind: str) -> Labels:
    """Returns the labels of a training file, sorted; their order gives the class ids.

    Args:
        examples: rows of the file.
        path: the file, for the message.
        kind: kind of the task.

    Raises:
        InputError: all rows have the same class.
    """
    if kind == "multi_label":
        names = {name for example in examples for name in example.label.split(LABEL_SEPARATOR)}
        return LabelSets(tuple(sorted(names)))
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


def _label_names(table: Table) -> tuple[str, ...]:
    """Returns the names of the labels that have columns, if there is no column of all labels."""
    names = tuple(name.removeprefix(_LABEL) for name in table.header if name.startswith(_LABEL))
    if "label" in table.header or not names:
        return ()
    for name in names:
        if not name or LABEL_SEPARATOR in name or names.count(name) > 1:
            raise InputError(
                f"{table.path}: the header row has the column '{_LABEL}{name}'; expected names of labels "
                f"that differ, without {LABEL_SEPARATOR}"
            )
    return names


def _join_label_columns(table: Table, names: Sequence[str]) -> Table:
    """Returns a table with the column `label` in place of columns of 0 and 1.

    Raises:
        InputError: the columns are not those of `names`, or another value is in one of them.
    """
    (header_line, header), *rows = table.rows
    found = _label_names(table)
    if set(found) != set(names):
        raise InputError(
            f"{table.path}, line {header_line}: received columns of the labels {', '.join(found)}; "
            f"expected {', '.join(names)}, as in the training file"
        )
    places = {name: header.index(_LABEL + name) for name in names}
    joined = [(header_line, [*header, "label"])]
    for number, fields in rows:
        if len(fields) != len(header):
            joined.append((number, fields))  # an error when examples are made
            continue
        for name, place in places.items():
            if fields[place] not in ("0", "1"):
                raise InputError(
                    f"{table.path}, line {number}: {_LABEL}{name} is '{fields[place]}'; expected 0 or 1"
                )
        chosen = [name for name, place in places.items() if fields[place] == "1"]
        joined.append((number, [*fields, LABEL_SEPARATOR.join(chosen)]))
    return dataclasses.replace(table, rows=joined)
