"""What the output folder of a run holds when the run begins."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any, Self

from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.kinds import Kind
from albert_tf.kinds.registry import kind_in
from albert_tf.model_folder import STATE_DIR, find_best, list_states
from albert_tf.tasks.training_options import TrainingOptions


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """The model in an output folder: with `--do_train` its state, otherwise its best weights."""

    model: StoredModel

    @classmethod
    def find(cls, options: TrainingOptions) -> Self | None:
        """Finds the model in `--output_dir`; returns None if there is none."""
        if not options.do_train:
            folder = find_best(options.output_dir)
            return cls(StoredModel.at(folder)) if folder else None
        folder = os.path.join(options.output_dir, STATE_DIR)
        return cls(StoredModel.at(folder)) if list_states(folder) else None

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the run that wrote it."""
        return self.model.own.get("options", {})

    @functools.cached_property
    def kind(self) -> Kind | None:
        """What the model predicts; None after pre-training."""
        return kind_in(self.model.folder)
