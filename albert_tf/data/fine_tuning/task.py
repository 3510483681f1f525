"""What makes one fine-tuning task another: the columns of the table of tasks."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Literal, Protocol

from albert_tf import gfile
from albert_tf.data.fine_tuning.tsv import Columns, Example, Labels, Scores, read_examples
from albert_tf.errors import InputError

TaskKind = Literal["classification", "regression", "multiple_choice"]


class Source(Protocol):
    """Where the examples of one set are, below `--data_dir`."""

    def read(self, data_dir: str, split: str, labels: Labels) -> list[Example]:
        """Returns the examples in order; raises `InputError` where they cannot be read."""


@dataclasses.dataclass(frozen=True)
class TsvFile:
    """A set in one tab-separated file.

    Attributes:
        file: its name below `--data_dir`.
        columns: where it has what.
    """

    file: str
    columns: Columns

    def read(self, data_dir: str, split: str, labels: Labels) -> list[Example]:
        """Reads the file.

        Args:
            data_dir: the folder that holds the tasks' folders, as in the original.
            split: `train`, `dev` or `test`.
            labels: the labels that exist.

        Raises:
            InputError: the file is missing, or `albert_tf.data.fine_tuning.tsv.read_examples` refuses it.
        """
        path = os.path.join(data_dir, self.file)
        if not gfile.exists(path):
            raise InputError(
                f"--data_dir={data_dir}: no file '{path}'; expected the folder above {self.file}"
            )
        return read_examples(path, self.columns, split, labels)


@dataclasses.dataclass(frozen=True)
class TfdsSource:
    """A task in TensorFlow Datasets.

    Attributes:
        builders: names of the data sets that hold it, e.g. `glue/cola`.
        dev: what its `dev` split is called there.
        columns: which feature is what; None where a record is an article of RACE.
    """

    builders: tuple[str, ...]
    dev: str = "validation"
    columns: Columns | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """What makes one task another.

    A split may have several sets that are evaluated and predicted one by one, as MNLI's matched and
    mismatched; the first decides which checkpoint is the best. The only set of a split has no name.

    Attributes:
        name: what `--task_name` says.
        metrics: keys of `albert_tf.evaluation.glue_metrics.METRICS`, those of the leaderboard, the one
            that decides which checkpoint is the best first.
        kind: what is predicted: one of several classes, a score, or one of several texts.
        more_metrics: others that are reported.
        labels: names in the order of the class ids, as in the original; the scores of a regression;
            None where the training file decides.
        sets: for each of `train`, `dev` and `test` that there is, set name -> source; empty where flags
            name the files.
        tfds: the task in TensorFlow Datasets.
        submissions: set of `test` -> the name of its file on the leaderboard.
        trained_as: the task whose model predicts this one; itself without.
    """

    name: str
    metrics: tuple[str, ...]
    kind: TaskKind = "classification"
    more_metrics: tuple[str, ...] = ()
    labels: tuple[str, ...] | Scores | None = None
    sets: Mapping[str, Mapping[str, Source]] = dataclasses.field(default_factory=dict)
    tfds: TfdsSource | None = None
    submissions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    trained_as: str | None = None

    @property
    def model_task(self) -> str:
        """Name of the task that the model was trained on."""
        return self.trained_as or self.name
