"""The columns of the table of fine-tuning tasks."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Protocol

import tensorflow as tf

from albert_tf.data.fine_tuning.tsv import Columns, Example, Labels, Scores, read_examples
from albert_tf.errors import InputError


class Source(Protocol):
    """The files of one set."""

    def read(self, data_dir: str, split: str, labels: Labels) -> list[Example]:
        """Returns the examples in order; raises `InputError` if they cannot be read."""


@dataclasses.dataclass(frozen=True)
class TsvFile:
    """A set in one tab-separated file.

    Attributes:
        file: name of the file below the data folder.
        columns: its columns.
    """

    file: str
    columns: Columns

    def read(self, data_dir: str, split: str, labels: Labels) -> list[Example]:
        """Reads the file."""
        path = os.path.join(data_dir, self.file)
        if not tf.io.gfile.exists(path):
            raise InputError(
                f"data_dir={data_dir}: no file '{path}'; expected the folder above {self.file}"
            )
        return read_examples(path, self.columns, split, labels)


@dataclasses.dataclass(frozen=True)
class TfdsSource:
    """A task in TensorFlow Datasets.

    Attributes:
        builders: names of the data sets, e.g. `glue/cola`.
        dev: name of the `dev` split.
        columns: names of the features; None if a record is an article of RACE.
    """

    builders: tuple[str, ...]
    dev: str = "validation"
    columns: Columns | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A row of the table of tasks.

    A split may have several sets that are evaluated and predicted separately, like MNLI's matched and
    mismatched. The first set selects the best checkpoint. The only set of a split has an empty name.

    Attributes:
        name: name of the task.
        metrics: the leaderboard's metrics, keys of `albert_tf.evaluation.metrics.METRICS`. The first one
            selects the best checkpoint.
        kind: name of the kind in `albert_tf.kinds.KINDS`.
        more_metrics: metrics that are reported in addition.
        labels: names in the order of the class ids, as in the original; or the range of a regression's
            scores; None if the training file decides.
        sets: split (`train`, `dev`, `test`) -> name of the set -> source. Empty if the user names the
            files.
        tfds: the task in TensorFlow Datasets.
        submissions: name of the test set -> name of its file on the leaderboard.
        trained_as: the task whose model predicts this one, if it is another.
    """

    name: str
    metrics: tuple[str, ...]
    kind: str = "classification"
    more_metrics: tuple[str, ...] = ()
    labels: tuple[str, ...] | Scores | None = None
    sets: Mapping[str, Mapping[str, Source]] = dataclasses.field(default_factory=dict)
    tfds: TfdsSource | None = None
    submissions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    trained_as: str | None = None

    @property
    def model_task(self) -> str:
        """Name of the task that the model is trained on."""
        return self.trained_as or self.name
