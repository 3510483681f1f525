"""The GLUE tasks as rows of the table of tasks: in their original files, and in TensorFlow Datasets.

They differ only in file names, columns and labels.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.data.fine_tuning.task import Task, TfdsSource, TsvFile
from albert_tf.data.fine_tuning.tsv import Columns, Scores

_ENTAILMENT = ("entailment", "not_entailment")
_INFERENCE = ("contradiction", "entailment", "neutral")


def _task(
    folder: str, tfds: tuple[str, ...], columns: Mapping[str, Columns], **differing: Any
) -> Task:
    """Returns a row for a task with one file per split, and classes 0 and 1.

    Args:
        folder: name of its folder, and of its submission.
        tfds: its name in TensorFlow Datasets, and those of the features with the texts.
        columns: those of `labelled` files and of the `test` file.
        **differing: columns of the table in which it differs.
    """
    splits = {"train": "labelled", "dev": "labelled", "test": "test"}
    name, *texts = tfds
    features = Columns(*texts, guid="idx", label="label")
    row: dict[str, Any] = {
        "name": folder.lower(),
        "metrics": ("accuracy",),
        "labels": ("0", "1"),
        "sets": {
            split: {"": TsvFile(f"{folder}/{split}.tsv", columns[kind])}
            for split, kind in splits.items()
        },
        "tfds": TfdsSource((f"glue/{name}",), columns=features),
        "submissions": {"": f"{folder}.tsv"},
    }
    return Task(**row | differing)


def _columns(
    text_a: str, text_b: str | None = None, label: str = "label", guid: str = "index"
) -> dict[str, Columns]:
    """Returns the columns of a task whose test file lacks only the label column."""
    test = Columns(guid=guid, text_a=text_a, text_b=text_b)
    return {"labelled": dataclasses.replace(test, label=label), "test": test}


def _without_ids(columns: Mapping[str, Columns]) -> dict[str, Columns]:
    """Returns the columns of a task whose labelled files have no ids."""
    return {**columns, "labelled": dataclasses.replace(columns["labelled"], guid=None)}


_COLA = {"labelled": Columns(text_a=3, label=1), "test": _columns("sentence")["test"]}
_QQP = {
    kind: dataclasses.replace(columns, broken_rows=True)
    for kind, columns in _columns("question1", "question2", "is_duplicate", "id").items()
}
_MNLI = _columns("sentence1", "sentence2", "gold_label")
_MNLI_SETS = ("matched", "mismatched")

GLUE_TASKS = (
    _task(
        "CoLA",
        ("cola", "sentence"),
        _COLA,
        metrics=("matthews_corrcoef",),
        more_metrics=("accuracy",),
    ),
    _task("SST-2", ("sst2", "sentence"), _without_ids(_columns("sentence"))),
    _task(
        "MRPC",
        ("mrpc", "sentence1", "sentence2"),
        _without_ids(_columns("#1 String", "#2 String", "Quality")),
        metrics=("accuracy", "f1"),
    ),
    _task(
        "STS-B",
        ("stsb", "sentence1", "sentence2"),
        _columns("sentence1", "sentence2", "score"),
        kind="regression",
        metrics=("pearson", "spearman"),
        labels=Scores(0, 5),
    ),
    _task("QQP", ("qqp", "question1", "question2"), _QQP, metrics=("accuracy", "f1")),
    _task(
        "MNLI",
        ("mnli", "premise", "hypothesis"),
        _MNLI,
        labels=_INFERENCE,
        sets={
            "train": {"": TsvFile("MNLI/train.tsv", _MNLI["labelled"])},
            "dev": {
                name: TsvFile(f"MNLI/dev_{name}.tsv", _MNLI["labelled"]) for name in _MNLI_SETS
            },
            "test": {name: TsvFile(f"MNLI/test_{name}.tsv", _MNLI["test"]) for name in _MNLI_SETS},
        },
        submissions={"matched": "MNLI-m.tsv", "mismatched": "MNLI-mm.tsv"},
    ),
    _task(
        "QNLI",
        ("qnli", "question", "sentence"),
        _columns("question", "sentence"),
        labels=_ENTAILMENT,
    ),
    _task(
        "RTE",
        ("rte", "sentence1", "sentence2"),
        _columns("sentence1", "sentence2"),
        labels=_ENTAILMENT,
    ),
    _task("WNLI", ("wnli", "sentence1", "sentence2"), _columns("sentence1", "sentence2")),
    _task(
        "AX",
        ("ax", "premise", "hypothesis"),
        _columns("sentence1", "sentence2"),
        metrics=(),
        labels=_INFERENCE,
        sets={
            "test": {
                "": TsvFile("diagnostic/diagnostic.tsv", _columns("sentence1", "sentence2")["test"])
            }
        },
        trained_as="mnli",
    ),
)
