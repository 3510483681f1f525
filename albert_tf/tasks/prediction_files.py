"""What evaluation and prediction leave: a row for each example, and the leaderboards' files."""

import collections
import os
from collections.abc import Callable, Sequence

import numpy as np
from sklearn import metrics

from albert_tf import files
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.tsv import Example, Scores
from albert_tf.tasks.kinds import KINDS
from albert_tf.tasks.trained_folder import LabelMetadata


def write_predictions(
    path: str, head: LabelMetadata, examples: Sequence[Example], outputs: np.ndarray
) -> None:
    """Writes a row for each example: id, label where there is one, prediction, probabilities.

    Args:
        path: the file.
        head: what the outputs mean.
        examples: n of them.
        outputs: float (n, k), from `TaskKind.outputs`.
    """
    kind = KINDS[head.kind]
    labelled = examples[0].label is not None
    columns = kind.output_columns(head)
    rows = ["\t".join(["guid", *["label"] * labelled, "prediction", *columns])]
    names = kind.names(kind.predictions(outputs), head)
    for example, name, values in zip(examples, names, outputs, strict=True):
        label = [example.label] * labelled
        shown = [f"{value:.6f}" for value in values[: len(columns)]]
        rows.append("\t".join([example.guid, *label, name, *shown]))
    files.write_text(path, "\n".join(rows) + "\n")


def write_confusion_matrix(
    path: str, labels: Sequence[str], label_ids: np.ndarray, predictions: np.ndarray
) -> None:
    """Writes how often each label (row) was predicted as which (column).

    Args:
        path: the file.
        labels: names of the classes.
        label_ids: int (n,), the true ones.
        predictions: int (n,), the predicted ones.
    """
    counts = metrics.confusion_matrix(label_ids, predictions, labels=range(len(labels)))
    rows = ["\t".join(["label", *labels])]
    rows += ["\t".join([label, *map(str, row)]) for label, row in zip(labels, counts, strict=True)]
    files.write_text(path, "\n".join(rows) + "\n")


def write_submission(
    output_dir: str, task: Task, set_name: str, examples: Sequence[Example], names: Sequence[str]
) -> str | None:
    """Writes predictions as the leaderboard takes them.

    Args:
        output_dir: the folder.
        task: the row of the table.
        set_name: which of the test sets.
        examples: n of them.
        names: n predictions in words.

    Returns:
        the file; None where the task has no leaderboard.
    """
    if set_name not in task.submissions:
        return None
    path = os.path.join(output_dir, task.submissions[set_name])
    if isinstance(task.labels, Scores):
        names = [f"{task.labels.clip(float(name)):.6f}" for name in names]
    write = _SUBMISSIONS[os.path.splitext(path)[1]]
    files.write_text(path, write([example.guid for example in examples], names))
    return path


def _glue_submission(guids: Sequence[str], names: Sequence[str]) -> str:
    rows = [f"{guid}\t{name}\n" for guid, name in zip(guids, names, strict=True)]
    return "".join(["index\tprediction\n", *rows])


def _race_answers(guids: Sequence[str], names: Sequence[str]) -> str:
    """Article's id -> the letters of its questions, in order, as `answers` in RACE's own files."""
    answers = collections.defaultdict(list)
    for guid, name in zip(guids, names, strict=True):
        answers[guid.rpartition("-")[0]].append(name)
    return files.to_json(answers)


_SUBMISSIONS: dict[str, Callable[[Sequence[str], Sequence[str]], str]] = {
    ".tsv": _glue_submission,
    ".json": _race_answers,
}
