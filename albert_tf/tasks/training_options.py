"""The options that every task that trains has."""

import dataclasses
from typing import Literal

from albert_tf.errors import FlagError
from albert_tf.options import option

# 256 times the paper's. A batch is made as a whole, so a slip of the hand would fill the memory.
_MAX_BATCH_SIZE = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options of every task that trains; a task adds its own and other defaults."""

    albert_config_file: str = option(
        "JSON file with the shape of the model: albert_config.json, or a Hugging Face config.json."
    )
    output_dir: str = option("Folder for checkpoints, metrics, summaries and results.")
    init_checkpoint: str | None = option(
        "Checkpoint, or folder of checkpoints, that the weights start from.", None
    )
    do_train: bool = option("Whether to train.", False)
    do_eval: bool = option("Whether to evaluate the best checkpoint at the end.", False)
    dropout: float | None = option(
        "Dropout of hidden states and attention; without it the recipe's, or the config's.", None
    )
    max_seq_length: int = option("Tokens of a sequence at most, the special ones included.", 512)
    train_batch_size: int = option("Examples of an update, over all replicas.")
    eval_batch_size: int = option("Examples of an evaluation step, over all replicas.", 64)
    optimizer: Literal["lamb", "adamw"] = option("The optimizer.")
    learning_rate: float = option("The peak of the learning rate.")
    warmup_steps: int = option("Updates until the learning rate is at its peak.", 0)
    poly_power: float = option("Power of the learning rate's decay; 1 is linear.", 1.0)
    start_warmup_step: int = option("Update at which the warm-up starts.", 0)
    save_checkpoints_steps: int = option("Updates between evaluations and checkpoints.", 1000)
    keep_checkpoint_max: int = option("How many of the newest checkpoints stay.", 5)
    keep_checkpoint_every_n_hours: float | None = option(
        "Of the older checkpoints, one stays for each time as long as this; without it none.", None
    )
    max_bad_steps: int = option(
        "Steps in a row that may be skipped because loss or gradient is not finite.", 10
    )
    spike_threshold: float = option(
        "A loss above the median of the last hundred by this factor is a spike; with 0 none is.",
        0.0,
    )
    on_spike: Literal["log", "rewind"] = option(
        "What to do about a spike: log it, or also go back to the newest checkpoint and on with the "
        "batches after the spike's.",
        "log",
    )
    log_steps: int = option("Updates between reports of the training's metrics.", 100)
    distribution_strategy: Literal["one_device", "mirrored", "tpu"] = option(
        "one_device, mirrored for a replica on each of the machine's devices, or tpu.", "one_device"
    )
    tpu: str | None = option("Name or address of the TPU; local on a TPU VM.", None)
    steps_per_loop: int = option(
        "Updates at most that the devices make before the host hears of them; more suit a TPU.", 1
    )
    accumulate_steps: int = option(
        "Parts of a replica's batch that are computed one after the other, to save memory.", 1
    )
    mixed_precision: Literal["float32", "mixed_bfloat16"] = option(
        "What the layers compute in; variables, losses and checkpoints are float32.", "float32"
    )
    deterministic: bool = option(
        "Whether equal runs, also one that was killed and went on, end equal to the bit; uses one core "
        "of the CPU.",
        False,
    )
    jit_compile: bool = option("Whether XLA compiles the forward and backward pass.", False)
    random_seed: int = option("Decides starting values, dropout and the order of the data.", 12345)

    @property
    def init_flag(self) -> str:
        """The flag that names what the weights start from, for messages."""
        return "init_checkpoint"

    def __post_init__(self):
        for name in ("train_batch_size", "eval_batch_size"):
            check_range(self, name, 1, _MAX_BATCH_SIZE)
        for name in (
            "save_checkpoints_steps",
            "keep_checkpoint_max",
            "log_steps",
            "steps_per_loop",
            "accumulate_steps",
        ):
            check_range(self, name, 1)
        for name in (
            "warmup_steps",
            "start_warmup_step",
            "random_seed",
            "max_bad_steps",
            "learning_rate",
            "poly_power",
        ):
            check_range(self, name, 0)
        check_range(self, "dropout", 0, 1)
        check_range(self, "keep_checkpoint_every_n_hours", 0)
        if self.spike_threshold:
            check_range(self, "spike_threshold", 1)
        elif self.on_spike == "rewind":
            raise FlagError(
                "--on_spike=rewind: expected --spike_threshold of at least 1; received 0"
            )
        check_range(self, "max_seq_length", 5)  # [CLS] a [SEP] b [SEP]
        on_tpu = self.distribution_strategy == "tpu"
        if on_tpu != (self.tpu is not None):
            raise FlagError("expected --distribution_strategy=tpu and --tpu together; received one")
        if on_tpu and self.jit_compile:
            raise FlagError("--jit_compile: a TPU's steps are compiled by themselves; leave it out")


def fixed_length(options: TrainingOptions) -> int | None:
    """Returns the length of all batches where the devices need one; None where batches may differ."""
    return options.max_seq_length if options.distribution_strategy == "tpu" else None


def check_range(options: TrainingOptions, name: str, least: float, most: float = 2**31 - 1) -> None:
    """Checks that an option has a value in [least, most], or none.

    Args:
        options: the options.
        name: of the option.
        least: the least value.
        most: the greatest value; without another, the greatest int32.

    Raises:
        FlagError: the value is outside.
    """
    value = getattr(options, name)
    if value is None or least <= value <= most:
        return
    bound = f"at most {most}" if value > most else f"at least {least}"
    raise FlagError(f"--{name}={value}: expected {bound}")
