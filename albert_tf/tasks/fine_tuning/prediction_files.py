"""The files that evaluation and prediction write: tables of examples, and the leaderboards' files."""

import collections
import os
from collections.abc import Callable, Sequence

from albert_tf import files
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.tsv import Example, Scores


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
