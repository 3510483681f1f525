"""The files that evaluation and prediction write: tables of examples, and the leaderboards' files."""

import collections
import os
from collections.abc import Callable, Sequence

import numpy as np
from sklearn import metrics

from albert_tf import files
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.tsv import Example, Scores


def write_predictions(
    path: str,
    examples: Sequence[Example],
    predictions: Sequence[str],
    labels: Sequence[str],
    probabilities: np.ndarray,
) -> None:
    """Writes a row for each example: id, label if known, prediction, probabilities.

    Args:
        path: the file.
        examples: n of them.
        predictions: n predictions as text.
        labels: names of the k classes; empty if the task has none.
        probabilities: float (n, k); not written without classes.
    """
    labelled = examples[0].label is not None
    columns = [f"probability_{label}" for label in labels]
    rows = ["\t".join(["guid", *["label"] * labelled, "prediction", *columns])]
    for example, name, values in zip(examples, predictions, probabilities, strict=True):
        label = [example.label] * labelled
        # Nine digits give the same float32 back.
        shown = [f"{value:.9g}" for value in values[: len(columns)]]
        rows.append("\t".join([example.guid, *label, name, *shown]))
    files.write_text(path, "\n".join(rows) + "\n")


def write_confusion_matrix(
    path: str, labels: Sequence[str], label_ids: np.ndarray, predictions: np.ndarray
) -> None:
    """Writes how often each true label (row) was predicted as each label (column).

    Args:
        path: the file.
        labels: names of the classes.
        label_ids: int (n,), true classes.
        predictions: int (n,), predicted classes.
    """
    counts = metrics.confusion_matrix(label_ids, predictions, labels=range(len(labels)))
    rows = ["\t".join(["label", *labels])]
    rows += ["\t".join([label, *map(str, row)]) for label, row in zip(labels, counts, strict=True)]
    files.write_text(path, "\n".join(rows) + "\n")


def write_submission(
    output_dir: str, task: Task, set_name: str, examples: Sequence[Example], names: Sequence[str]
) -> str | None:
    """Writes predictions in the leaderboard's format.

    Args:
        output_dir: folder of the file.
        task: row of the table of tasks.
        set_name: name of the test set.
        examples: n of them.
        names: n predictions as text.

    Returns:
        The file; None if the task has no leaderboard.
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
    """Article id -> the letters of its questions in order, like `answers` in RACE's own files."""
    answers = collections.defaultdict(list)
    for guid, name in zip(guids, names, strict=True):
        answers[guid.rpartition("-")[0]].append(name)
    return files.to_json(answers)


_SUBMISSIONS: dict[str, Callable[[Sequence[str], Sequence[str]], str]] = {
    ".tsv": _glue_submission,
    ".json": _race_answers,
}
