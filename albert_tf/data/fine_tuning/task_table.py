"""The table of all fine-tuning tasks: those of GLUE and SuperGLUE, RACE, SQuAD, and the user's own.

The GLUE tasks differ only in file names, columns and labels, in their original files and in TensorFlow
Datasets.
"""

import dataclasses
import difflib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from albert_tf import files
from albert_tf.data.fine_tuning.cells import to_tsv
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.examples import (
    Columns,
    Example,
    Labels,
    ScoreRange,
    make_examples,
    read_glue_table,
)
from albert_tf.data.fine_tuning.race import LEVELS, RaceFolders, write_race_answers
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError


def read_original_table(path: str, columns: Columns) -> Table:
    """Reads a file as its suffix says; quotes of a `.tsv` have no meaning, as in GLUE's."""
    if path.endswith(".tsv"):
        return read_glue_table(path, columns)
    # The columns are the file's, whatever layouts are made of them elsewhere.
    return Table.read(path, names=ColumnNames(text_column=str(columns.text_a)))


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """A set in one file, with its name below the data folder.

    Attributes:
        file: the name, e.g. `RTE/dev.tsv`.
        columns: the columns of texts and labels.
        read_table: makes a table with these columns of the path of the file, if that is none of ours.
    """

    file: str
    columns: Columns
    read_table: Callable[[str, Columns], Table] = read_original_table

    def read(self, data_dir: str, split: str, labels: Labels) -> list[Example]:
        """Reads the file."""
        path = os.path.join(data_dir, self.file)
        if not files.exists(path):
            raise InputError(
                f"data_dir={data_dir}: no file '{path}'; expected the folder above {self.file}"
            )
        return make_examples(self.read_table(path, self.columns), self.columns, split, labels)


class SetSource(Protocol):
    """Where a set of a task comes from: a `TaskFile`, or a class of its own."""

    def read(self, data_dir: str, split: str, labels: Labels) -> list[Example]:
        """Reads the examples of a split from the folder that the user names."""


def write_glue_answers(guids: Sequence[str], answers: Sequence[str]) -> str:
    """Returns the file that GLUE's leaderboard expects."""
    pairs = zip(guids, answers, strict=True)
    return to_tsv({"index": guid, "prediction": answer} for guid, answer in pairs)


def write_superglue_answers(guids: Sequence[str], answers: Sequence[str]) -> str:
    """Returns the file that SuperGLUE's leaderboard expects: an object per line, with a number as id."""
    rows = (
        {"idx": int(guid) if guid.isdecimal() else guid, "label": answer}
        for guid, answer in zip(guids, answers, strict=True)
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


@dataclasses.dataclass(frozen=True)
class Submission:
    """A file for a leaderboard: its name, and what makes its content of ids and predictions."""

    file: str
    write: Callable[[Sequence[str], Sequence[str]], str] = write_glue_answers


@dataclasses.dataclass(frozen=True)
class TfdsSource:
    """A task in TensorFlow Datasets."""

    builders: tuple[str, ...]  # names of the data sets, e.g. `glue/cola`
    dev: str = "validation"  # name of the `dev` split
    columns: Columns | None = None  # of features; None if a record is an article of RACE


@dataclasses.dataclass(frozen=True)
class Task:
    """A row of the table of tasks.

    A split may have several sets that are evaluated and predicted separately, like MNLI's matched and
    mismatched. The first set selects the best checkpoint. The only set of a split has an empty name.
    """

    name: str
    # Keys of `albert_tf.evaluation.metrics.METRICS`, those of the leaderboard first, in place of the
    # kind's. The first metric selects the best checkpoint.
    metrics: tuple[str, ...] = ()
    kind: str = "classification"  # name in `albert_tf.kinds.KINDS`
    # Names in the order of the class ids, as in the original; or the range of a regression's scores;
    # None if the training file decides.
    labels: tuple[str, ...] | ScoreRange | None = None
    # Split (`train`, `dev`, `test`) -> name of the set -> source. Empty if the user names the files.
    sets: Mapping[str, Mapping[str, SetSource]] = dataclasses.field(default_factory=dict)
    tfds: TfdsSource | None = None
    # Name of the test set -> its file for the leaderboard.
    submissions: Mapping[str, Submission] = dataclasses.field(default_factory=dict)
    trained_as: str | None = None  # the task whose model predicts this one, if it is another

    @property
    def model_task(self) -> str:
        """Name of the task that the model is trained on."""
        return self.trained_as or self.name


def _glue_task(
    folder: str, tfds: tuple[str, ...], columns: Mapping[str, Columns], **differing: Any
) -> Task:
    """Returns a row for a task with one file per split, and classes 0 and 1.

    `differing` are columns of the table with other values. `folder` also names the submission. `tfds` are
    the task's name in TensorFlow Datasets and those of the features with the texts.
    """
    name, *texts = tfds
    text_a, text_b = texts if len(texts) == 2 else (texts[0], None)
    row: dict[str, Any] = {
        "name": folder.lower(),
        "labels": ("0", "1"),
        "sets": {
            split: {"": TaskFile(f"{folder}/{split}.tsv", split_columns)}
            for split, split_columns in columns.items()
        },
        "tfds": TfdsSource(
            (f"glue/{name}",), columns=Columns(text_a, text_b, guid="idx", label="label")
        ),
        "submissions": {"": Submission(f"{folder}.tsv")},
    }
    return Task(**row | differing)


def _superglue_task(folder: str, columns: Mapping[str, Columns], **differing: Any) -> Task:
    """Returns a row for a task with an object per line in a file per split; else as `_glue_task`.

    TensorFlow Datasets has the same columns.
    """
    row: dict[str, Any] = {
        "name": folder.lower(),
        "sets": {
            split: {"": TaskFile(f"{folder}/{file}.jsonl", columns[split])}
            for split, file in {"train": "train", "dev": "val", "test": "test"}.items()
        },
        "tfds": TfdsSource((f"super_glue/{folder.lower()}",), columns=columns["train"]),
        "submissions": {"": Submission(f"{folder}.jsonl", write_superglue_answers)},
    }
    return Task(**row | differing)


def _columns(
    text_a: str,
    text_b: str | None = None,
    label: str = "label",
    guid: str = "index",
    has_ids: bool = True,
    **others: Any,
) -> dict[str, Columns]:
    """Returns the columns of a task whose test file has no label, but ids even without `has_ids`."""
    test = Columns(text_a, text_b, guid=guid, **others)
    labelled = dataclasses.replace(test, label=label, guid=guid if has_ids else None)
    return {"train": labelled, "dev": labelled, "test": test}


_COLA = Columns(text_a=3, label=1)
_PAIR = _columns("sentence1", "sentence2")
_QQP = _columns("question1", "question2", label="is_duplicate", guid="id")
_MNLI = _columns("sentence1", "sentence2", label="gold_label")
_MNLI_SETS = {"train": ("",), "dev": ("matched", "mismatched"), "test": ("matched", "mismatched")}
_ENTAILMENT = ("entailment", "not_entailment")
_INFERENCE = ("contradiction", "entailment", "neutral")
_TRUTH = {"False": "false", "True": "true"}

GLUE_TASKS = (
    _glue_task(
        "CoLA",
        ("cola", "sentence"),
        _columns("sentence") | {"train": _COLA, "dev": _COLA},
        metrics=("matthews_corrcoef", "accuracy"),
    ),
    _glue_task("SST-2", ("sst2", "sentence"), _columns("sentence", has_ids=False)),
    _glue_task(
        "MRPC",
        ("mrpc", "sentence1", "sentence2"),
        _columns("#1 String", "#2 String", label="Quality", has_ids=False),
        metrics=("accuracy", "f1"),
    ),
    _glue_task(
        "STS-B",
        ("stsb", "sentence1", "sentence2"),
        _columns("sentence1", "sentence2", label="score"),
        kind="regression",
        labels=ScoreRange(0, 5),
    ),
    _glue_task(
        "QQP",
        ("qqp", "question1", "question2"),
        {split: dataclasses.replace(columns, broken_rows=True) for split, columns in _QQP.items()},
        metrics=("accuracy", "f1"),
    ),
    _glue_task(
        "MNLI",
        ("mnli", "premise", "hypothesis"),
        {},
        labels=_INFERENCE,
        sets={
            split: {
                name: TaskFile(f"MNLI/{split}{name and f'_{name}'}.tsv", _MNLI[split])
                for name in names
            }
            for split, names in _MNLI_SETS.items()
        },
        submissions={
            "matched": Submission("MNLI-m.tsv"),
            "mismatched": Submission("MNLI-mm.tsv"),
        },
    ),
    _glue_task(
        "QNLI",
        ("qnli", "question", "sentence"),
        _columns("question", "sentence"),
        labels=_ENTAILMENT,
    ),
    _glue_task("RTE", ("rte", "sentence1", "sentence2"), _PAIR, labels=_ENTAILMENT),
    _glue_task("WNLI", ("wnli", "sentence1", "sentence2"), _PAIR),
    _glue_task(
        "AX",
        ("ax", "premise", "hypothesis"),
        {},
        labels=_INFERENCE,
        sets={"test": {"": TaskFile("diagnostic/diagnostic.tsv", _PAIR["test"])}},
        trained_as="mnli",
    ),
)

SUPERGLUE_TASKS = (
    # Whether a word means the same in two sentences.
    _superglue_task(
        "WiC",
        _columns("sentence1", "sentence2", guid="idx", prefixes=("word",), spellings=_TRUTH),
        labels=tuple(_TRUTH.values()),
    ),
)

RACE_TASK = Task(
    name="race",
    kind="multiple_choice",
    labels=("A", "B", "C", "D"),
    sets={split: {"": RaceFolders()} for split in ("train", "dev", "test")},
    tfds=TfdsSource(tuple(f"race/{level}" for level in LEVELS), dev="dev"),
    submissions={"": Submission("race_answers.json", write_race_answers)},
)
SQUAD_TASK = Task(
    name="squad",
    kind="question_answering",
    tfds=TfdsSource(("squad", "squad/v2.0")),  # without and with questions that have no answer
)
# Of the user's own data, whose columns decide the rest.
OWN_TASK = Task(name="classification")

TASKS: Mapping[str, Task] = {
    **{
        task.name: task for task in (*GLUE_TASKS, *SUPERGLUE_TASKS, RACE_TASK, SQUAD_TASK, OWN_TASK)
    },
    SQUAD_TASK.kind: SQUAD_TASK,
}


def find_task(name: str, others: Iterable[str] = ()) -> Task:
    """Returns the task with a name, in any case; `others` are names that a message adds."""
    task = TASKS.get(name.lower())
    if task is None:
        names = dict.fromkeys((*TASKS, *others))
        nearest = difflib.get_close_matches(name.lower(), names)
        hint = f"did you mean {' or '.join(nearest)}? " if nearest else ""
        raise InputError(f"task_name: unknown task '{name}'; {hint}There are {', '.join(names)}")
    return task


def select_level(task: Task, level: str) -> Task:
    """Returns the task restricted to a level of RACE; `all` keeps all levels."""
    if level == "all":
        return task
    assert task.tfds is not None
    return dataclasses.replace(
        task,
        sets={split: {"": RaceFolders((level,))} for split in task.sets},
        tfds=dataclasses.replace(task.tfds, builders=(f"race/{level}",)),
    )
