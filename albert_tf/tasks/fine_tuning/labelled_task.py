"""What all tasks of `run_classifier.py` have in common: labelled texts in several sets."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.checkpoints.loading import stored_labels
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.errors import InputError
from albert_tf.tasks.common import has_checkpoint
from albert_tf.tasks.fine_tuning.classification_options import ClassificationOptions
from albert_tf.tasks.fine_tuning.line_prediction import predict_lines
from albert_tf.tasks.fine_tuning.task import FineTuningTask
from albert_tf.tasks.fine_tuning.text_data import check_label_metadata
from albert_tf.tasks.trained_folder import (
    LabelMetadata,
    find_label_metadata,
)

# Maps a batch, as `make_batch` makes it, to the model's logits.
PredictBatch = Callable[[Mapping[str, np.ndarray]], np.ndarray]


class ExampleSet(NamedTuple):
    """One set of a split.

    Attributes:
        name: e.g. `matched`; empty for the only set of a split.
        examples: examples of the set.
        features: the same examples as ids.
    """

    name: str
    examples: list[Example]
    features: Features

    @property
    def prefix(self) -> str:
        """Prefix of the names of its metrics."""
        return f"{self.name}_" if self.name else ""

    def suffixed(self, name: str) -> str:
        """Returns the name of a file of the set."""
        return f"{name}_{self.name}" if self.name else name


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledTask(FineTuningTask):
    """A task whose examples are texts with labels.

    Attributes:
        row: row of the table of tasks.
        metadata: meaning of the model's outputs.
        sets: sets of each split that the run reads.
    """

    options: ClassificationOptions
    row: Task
    metadata: LabelMetadata
    sets: Mapping[str, Sequence[ExampleSet]]

    def check_labels(self) -> None:
        """Checks that the model that the run starts from has the task's labels.

        Raises:
            InputError: it has others, or has them in another order.
        """
        options, labels = self.options, self.metadata.labels
        check_label_metadata(options, self.metadata)
        if not options.init_checkpoint or options.reset_head or has_checkpoint(options):
            return
        noted = find_label_metadata(options.init_checkpoint)
        received = noted.labels if noted else stored_labels(options.init_checkpoint)
        # A head of another size is reported with its shape.
        if received != labels and len(received) == len(labels):
            raise InputError(
                f"--init_checkpoint={options.init_checkpoint}: its head is of the classes "
                f"{', '.join(received)}; this task's are {', '.join(labels)}; --reset_head "
                "initialises a new head"
            )

    @property
    def dev_features(self) -> Features | None:
        """The first dev set; None if the run reads none."""
        dev_sets = self.sets.get("dev")
        return dev_sets[0].features if dev_sets else None

    def predict_lines(self, model: keras.Model) -> None:
        """Answers the lines of `--predict_file` on standard output."""
        if self.options.predict_file:
            predict_lines(self, model)
