"""The classification tasks as a table: GLUE in its original layout, and the user's own files.

A task is one row. GLUE's tasks differ in file names, columns and labels, and in nothing that would
need code.
"""

import dataclasses
import difflib
import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from albert_tf.data.tsv import Columns, Example, read_examples
from albert_tf.errors import FlagError, InputError


@dataclasses.dataclass(frozen=True)
class Split:
    """One file of a task.

    Attributes:
        file: its name below `--data_dir`.
        columns: where it has what.
    """

    file: str
    columns: Columns


@dataclasses.dataclass(frozen=True)
class Task:
    """What makes one classification task another.

    Attributes:
        name: what `--task_name` says.
        metrics: keys of `albert_tf.evaluation.glue_metrics.METRICS`, the main one first.
        labels: names in the order of the class ids, as in the original; None where the training
            file decides.
        splits: file and columns of `train`, `dev` and `test`; empty where flags name the files.
    """

    name: str
    metrics: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    splits: Mapping[str, Split] = dataclasses.field(default_factory=dict)


def _splits(folder: str, labelled: Columns, test: Columns) -> Mapping[str, Split]:
    """The three files that most tasks have."""
    columns = {"train": labelled, "dev": labelled, "test": test}
    return {split: Split(f"{folder}/{split}.tsv", columns[split]) for split in columns}


_ROWS = (
    Task(
        name="cola",
        metrics=("matthews_corrcoef", "accuracy"),
        labels=("0", "1"),
        splits=_splits(
            "CoLA",
            labelled=Columns(label=1, text_a=3),
            test=Columns(guid="index", text_a="sentence"),
        ),
    ),
    Task(
        name="mrpc",
        metrics=("accuracy", "f1"),
        labels=("0", "1"),
        splits=_splits(
            "MRPC",
            labelled=Columns(label="Quality", text_a="#1 String", text_b="#2 String"),
            test=Columns(guid="index", text_a="#1 String", text_b="#2 String"),
        ),
    ),
    Task(
        name="sst-2",
        metrics=("accuracy",),
        labels=("0", "1"),
        splits=_splits(
            "SST-2",
            labelled=Columns(label="label", text_a="sentence"),
            test=Columns(guid="index", text_a="sentence"),
        ),
    ),
    Task(name="tsv", metrics=("accuracy",)),
)

TASKS: Mapping[str, Task] = {task.name: task for task in _ROWS}

_TSV_COLUMNS = Columns(label="label", text_a="text_a", text_b="text_b", optional=("text_b",))
_TSV_TEST_COLUMNS = dataclasses.replace(_TSV_COLUMNS, optional=("text_b", "label"))


def find_task(name: str) -> Task:
    """Returns the task of that name, whatever its case.

    Raises:
        FlagError: there is none.
    """
    task = TASKS.get(name.lower())
    if task is None:
        nearest = difflib.get_close_matches(name.lower(), TASKS)
        hint = f"did you mean {' or '.join(nearest)}? " if nearest else ""
        raise FlagError(f"--task_name: unknown task '{name}'; {hint}There are {', '.join(TASKS)}")
    return task


def read_glue(task: Task, data_dir: str, split: str) -> list[Example]:
    """Reads one split of a GLUE task from its file in the original layout.

    Args:
        task: a row of `TASKS` that has files.
        data_dir: the folder that holds the tasks' folders, as in the original.
        split: a key of `task.splits`.

    Raises:
        InputError: the file is missing, or `albert_tf.data.tsv.read_examples` refuses it.
    """
    file, columns = task.splits[split].file, task.splits[split].columns
    path = os.path.join(data_dir, file)
    if not tf.io.gfile.exists(path):
        raise InputError(
            f"--data_dir={data_dir}: no file '{path}'; expected the folder above {file}"
        )
    return read_examples(path, columns, split, task.labels)


def read_tsv(path: str, split: str, labels: Sequence[str] | None = None) -> list[Example]:
    """Reads the user's own file: a header row with `label`, `text_a` and, for pairs, `text_b`.

    The columns may stand in any order among others; a test file may do without labels.

    Args:
        path: the file that the flag `--<split>_file` names.
        split: `train`, `dev` or `test`.
        labels: the labels that exist; None, as for the training file, accepts all.

    Raises:
        InputError: the file is missing, or `albert_tf.data.tsv.read_examples` refuses it.
    """
    if not tf.io.gfile.exists(path):
        raise InputError(f"--{split}_file: no file '{path}'")
    columns = _TSV_TEST_COLUMNS if split == "test" else _TSV_COLUMNS
    return read_examples(path, columns, split, labels)


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
