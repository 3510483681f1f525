"""The GLUE tasks as rows of the table of tasks: in their original files, and in TensorFlow Datasets.

They differ only in file names, columns and labels.
"""

import dataclasses
from collections.abc import Mapping

from albert_tf.data.fine_tuning.task import Task, TfdsSource, TsvFile
from albert_tf.data.fine_tuning.tsv import Columns, Scores

_ENTAILMENT = ("entailment", "not_entailment")
_INFERENCE = ("contradiction", "entailment", "neutral")


def _sets(folder: str, labelled: Columns, test: Columns) -> Mapping[str, Mapping[str, TsvFile]]:
    """Returns the three files that most tasks have."""
    columns = {"train": labelled, "dev": labelled, "test": test}
    return {split: {"": TsvFile(f"{folder}/{split}.tsv", columns[split])} for split in columns}


def _pair(text_a: str, text_b: str, label: str, guid: str = "index") -> dict[str, Columns]:
    """Returns the columns of a task whose test file lacks only the label column."""
    test = Columns(guid=guid, text_a=text_a, text_b=text_b)
    return {"labelled": dataclasses.replace(test, label=label), "test": test}


def _tfds(name: str, text_a: str, text_b: str | None = None) -> TfdsSource:
    return TfdsSource(
        (f"glue/{name}",),
        columns=Columns(guid="idx", label="label", text_a=text_a, text_b=text_b),
    )


_MNLI = _pair("sentence1", "sentence2", "gold_label")
_QQP = {
    name: dataclasses.replace(columns, broken_rows=True)
    for name, columns in _pair("question1", "question2", "is_duplicate", guid="id").items()
}

GLUE_TASKS = (
    Task(
        name="cola",
        metrics=("matthews_corrcoef",),
        more_metrics=("accuracy",),
        labels=("0", "1"),
        sets=_sets(
            "CoLA",
            labelled=Columns(label=1, text_a=3),
            test=Columns(guid="index", text_a="sentence"),
        ),
        tfds=_tfds("cola", "sentence"),
        submissions={"": "CoLA.tsv"},
    ),
    Task(
        name="sst-2",
        metrics=("accuracy",),
        labels=("0", "1"),
        sets=_sets(
            "SST-2",
            labelled=Columns(label="label", text_a="sentence"),
            test=Columns(guid="index", text_a="sentence"),
        ),
        tfds=_tfds("sst2", "sentence"),
        submissions={"": "SST-2.tsv"},
    ),
    Task(
        name="mrpc",
        metrics=("accuracy", "f1"),
        labels=("0", "1"),
        sets=_sets(
            "MRPC",
            labelled=Columns(label="Quality", text_a="#1 String", text_b="#2 String"),
            test=Columns(guid="index", text_a="#1 String", text_b="#2 String"),
        ),
        tfds=_tfds("mrpc", "sentence1", "sentence2"),
        submissions={"": "MRPC.tsv"},
    ),
    Task(
        name="sts-b",
        kind="regression",
        metrics=("pearson", "spearman"),
        labels=Scores(0, 5),
        sets=_sets("STS-B", **_pair("sentence1", "sentence2", "score")),
        tfds=_tfds("stsb", "sentence1", "sentence2"),
        submissions={"": "STS-B.tsv"},
    ),
    Task(
        name="qqp",
        metrics=("accuracy", "f1"),
        labels=("0", "1"),
        sets=_sets("QQP", **_QQP),
        tfds=_tfds("qqp", "question1", "question2"),
        submissions={"": "QQP.tsv"},
    ),
    Task(
        name="mnli",
        metrics=("accuracy",),
        labels=_INFERENCE,
        sets={
            "train": {"": TsvFile("MNLI/train.tsv", _MNLI["labelled"])},
            "dev": {
                "matched": TsvFile("MNLI/dev_matched.tsv", _MNLI["labelled"]),
                "mismatched": TsvFile("MNLI/dev_mismatched.tsv", _MNLI["labelled"]),
            },
            "test": {
                "matched": TsvFile("MNLI/test_matched.tsv", _MNLI["test"]),
                "mismatched": TsvFile("MNLI/test_mismatched.tsv", _MNLI["test"]),
            },
        },
        tfds=_tfds("mnli", "premise", "hypothesis"),
        submissions={"matched": "MNLI-m.tsv", "mismatched": "MNLI-mm.tsv"},
    ),
    Task(
        name="qnli",
        metrics=("accuracy",),
        labels=_ENTAILMENT,
        sets=_sets("QNLI", **_pair("question", "sentence", "label")),
        tfds=_tfds("qnli", "question", "sentence"),
        submissions={"": "QNLI.tsv"},
    ),
    Task(
        name="rte",
        metrics=("accuracy",),
        labels=_ENTAILMENT,
        sets=_sets("RTE", **_pair("sentence1", "sentence2", "label")),
        tfds=_tfds("rte", "sentence1", "sentence2"),
        submissions={"": "RTE.tsv"},
    ),
    Task(
        name="wnli",
        metrics=("accuracy",),
        labels=("0", "1"),
        sets=_sets("WNLI", **_pair("sentence1", "sentence2", "label")),
        tfds=_tfds("wnli", "sentence1", "sentence2"),
        submissions={"": "WNLI.tsv"},
    ),
    Task(
        name="ax",
        metrics=(),
        labels=_INFERENCE,
        sets={
            "test": {
                "": TsvFile(
                    "diagnostic/diagnostic.tsv",
                    Columns(guid="index", text_a="sentence1", text_b="sentence2"),
                )
            }
        },
        tfds=_tfds("ax", "premise", "hypothesis"),
        submissions={"": "AX.tsv"},
        trained_as="mnli",
    ),
)
