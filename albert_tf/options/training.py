"""The options of the training loop, and the names of strategies, apart from these slow modules."""

import dataclasses
from typing import Literal

from albert_tf.options import option

StrategyName = Literal["one_device", "mirrored", "multi_worker_mirrored", "tpu"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """The options of the training loop, which are the same for every task."""

    output_dir: str = option("Folder for checkpoints, metrics, summaries and results.")
    save_checkpoints_steps: int = option(
        "Number of updates between two evaluations and checkpoints.", 1000, least=1
    )
    keep_checkpoint_max: int = option("Number of most recent checkpoints to keep.", 5, least=1)
    max_bad_steps: int = option(
        "Number of consecutive steps that may be skipped because their loss or gradient is not "
        "finite. One more ends the run.",
        10,
        least=0,
    )
    log_steps: int = option("Number of updates between two reports of metrics.", 100, least=1)
    steps_per_loop: int | None = option(
        "Maximum number of updates per call to the device. Larger values suit TPUs. Default: 16 with "
        "--jit_compile on one device, otherwise 1.",
        None,
        least=1,
    )
