"""How long to train, and what to do on the way."""

import dataclasses
from typing import Literal

from albert_tf.training.checkpoint_manager import BestCheckpoint

BEST_DIR = "best"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How long to train, and what to do on the way.

    Attributes:
        description: what progress calls the run.
        output_dir: folder of everything the run leaves.
        num_train_steps: updates in all, those before a restart included.
        save_checkpoints_steps: updates between two evaluations and checkpoints.
        log_steps: updates between two reports.
        steps_per_loop: updates at most that the devices make before the host hears of them.
        keep_checkpoint_max: how many of the newest checkpoints stay.
        keep_checkpoint_every_n_hours: of the older ones, one stays for each time as long as this; None
            keeps none.
        max_bad_steps: steps in a row that may be skipped because loss or gradient is not finite.
        spike_threshold: a loss above its running median by this factor is a spike; None looks for none.
        on_spike: whether a spike is logged alone, or the run then goes back to a checkpoint too.
        best_metric: name of the evaluation's metric that picks the best checkpoint.
        higher_is_better: whether a higher `best_metric` is better.
    """

    description: str
    output_dir: str
    num_train_steps: int
    save_checkpoints_steps: int
    log_steps: int
    steps_per_loop: int
    keep_checkpoint_max: int
    keep_checkpoint_every_n_hours: float | None
    max_bad_steps: int
    spike_threshold: float | None
    on_spike: Literal["log", "rewind"]
    best_metric: str
    higher_is_better: bool

    def steps_after(self, step: int) -> int:
        """Returns how many updates follow a step until the host has something to do."""
        intervals = (self.log_steps, self.save_checkpoints_steps)
        return min(
            self.steps_per_loop,
            self.num_train_steps - step,
            *(interval - step % interval for interval in intervals),
        )

    def saves_at(self, step: int) -> bool:
        """Returns whether an evaluation and a checkpoint follow a step."""
        return step == self.num_train_steps or step % self.save_checkpoints_steps == 0

    @property
    def best(self) -> BestCheckpoint:
        """The best checkpoint of the run."""
        return BestCheckpoint(f"{self.output_dir}/{BEST_DIR}")
