"""How long to train, and when to report, evaluate and save."""

import dataclasses
from typing import Literal

from albert_tf.checkpoints.folder import BEST_DIR
from albert_tf.options import option
from albert_tf.training.checkpoint_manager import BestCheckpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """The options of the training loop, which are the same for every task."""

    output_dir: str = option("Folder for checkpoints, metrics, summaries and results.")
    save_checkpoints_steps: int = option(
        "Number of updates between two evaluations and checkpoints.", 1000, least=1
    )
    keep_checkpoint_max: int = option("Number of most recent checkpoints to keep.", 5, least=1)
    keep_checkpoint_every_n_hours: float | None = option(
        "Additionally keep one checkpoint per this many hours. Default: none.", None, least=0
    )
    max_bad_steps: int = option(
        "Number of consecutive steps that may be skipped because their loss or gradient is not "
        "finite. One more ends the run.",
        10,
        least=0,
    )
    spike_threshold: float = option(
        "Report a loss spike if the loss exceeds the median of the last 100 losses by this factor. 0 "
        "turns the detection off.",
        0.0,
        least=0,
    )
    on_spike: Literal["log", "rewind"] = option(
        "What to do after a loss spike. log: print a warning. rewind: also roll back to the newest "
        "checkpoint and continue with the batches after the spike.",
        "log",
    )
    log_steps: int = option("Number of updates between two reports of metrics.", 100, least=1)
    steps_per_loop: int = option(
        "Maximum number of updates per call to the device. Larger values suit TPUs.", 1, least=1
    )


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """How long to train, and how to choose the best checkpoint.

    Attributes:
        options: options of the training loop.
        description: name of the run in progress lines.
        num_train_steps: total number of updates, including those before a restart.
        best_metric: evaluation metric that selects the best checkpoint.
        higher_is_better: whether a higher `best_metric` is better.
    """

    options: LoopOptions
    description: str
    num_train_steps: int
    best_metric: str
    higher_is_better: bool

    def steps_after(self, step: int) -> int:
        """Returns the number of updates after `step` until the host has something to do."""
        options = self.options
        intervals = (options.log_steps, options.save_checkpoints_steps)
        return min(
            options.steps_per_loop,
            self.num_train_steps - step,
            *(interval - step % interval for interval in intervals),
        )

    def saves_at(self, step: int) -> bool:
        """Returns whether an evaluation and a checkpoint follow `step`."""
        return step == self.num_train_steps or step % self.options.save_checkpoints_steps == 0

    @property
    def best(self) -> BestCheckpoint:
        """The best checkpoint of the run."""
        return BestCheckpoint(f"{self.options.output_dir}/{BEST_DIR}")
