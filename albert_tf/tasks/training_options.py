"""The options of every task that trains or exports a model, and the recipes for training.

Of the recipes for pre-training the paper's is also the default.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from albert_tf import files
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.errors import InputError, name_place
from albert_tf.options import check_ranges, option
from albert_tf.options.export_forms import (
    DEFAULT_FORM,
    FORMS,
    Form,
    Weights,
    check_form,
    describe_forms,
    describe_weights,
)
from albert_tf.options.models import DepthOptions, PieceOptions, VocabularyOptions
from albert_tf.options.training import LoopOptions
from albert_tf.processor import has_bfloat16
from albert_tf.sources import MODEL_NAMES
from albert_tf.tasks.optimizers import OptimizerName, describe_optimizers

# 256 times the paper's. A batch is built as a whole, so a typing error could fill the memory.
MAX_BATCH_SIZE = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(DepthOptions, VocabularyOptions, PieceOptions, LoopOptions):
    """The options of every task that trains. A task adds its own, and has `DEFAULTS` for them."""

    albert_config_file: str | None = option(
        "JSON file with the model's configuration: albert_config.json, or a Hugging Face config.json.",
        None,
    )
    init_checkpoint: str | None = option(
        f"Model to start from: {MODEL_NAMES} or prefix of a checkpoint.",
        None,
    )
    do_train: bool = option("Train the model.", False)
    do_eval: bool | None = option("Evaluate the best checkpoint at the end.", False)
    dropout: float | None = option(
        "Dropout rate of hidden states and attention. Default: the recipe's or else the config's.",
        None,
        least=0,
        most=1,
    )
    max_seq_length: int | None = option(
        "Maximum sequence length in tokens, including the special ones.",
        None,
        least=5,  # [CLS] a [SEP] b [SEP]
    )
    max_position_embeddings: int | None = option(
        "Number of positions of the model, which may be more than --init_checkpoint has: the rows of "
        "their embeddings continue the path of its own. Default: the config's.",
        None,
        least=5,
    )
    train_batch_size: int | None = option(
        "Number of examples per update, over all replicas.", None, least=1, most=MAX_BATCH_SIZE
    )
    eval_batch_size: int = option(
        "Number of examples per evaluation step, over all replicas.",
        64,
        least=1,
        most=MAX_BATCH_SIZE,
    )
    optimizer: OptimizerName | None = option(describe_optimizers(), None)
    learning_rate: float | None = option("Peak learning rate.", None, least=0)
    num_train_steps: int | None = option("Total number of updates.", None, least=1)
    warmup_steps: int | None = option(
        "Number of updates until the peak learning rate.", None, least=0
    )
    poly_power: float = option(
        "Power of the learning rate's polynomial decay. 1 is linear.", 1.0, least=0
    )
    start_warmup_step: int = option("Update at which the warm-up starts.", 0, least=0)
    distribution_strategy: Literal["one_device", "mirrored", "tpu"] = option(
        "one_device; mirrored: one replica per device of this machine; or tpu.", "one_device"
    )
    tpu: str | None = option("Name or address of the TPU, or local on a TPU VM.", None)
    accumulate_steps: int = option(
        "Number of micro-batches that a replica processes one after the other in each update, to save "
        "memory.",
        1,
        least=1,
    )
    mixed_precision: Literal["float32", "mixed_bfloat16"] = option(
        "Precision of the layers' computations. Variables, losses and checkpoints are float32.",
        "float32",
    )
    deterministic: bool = option(
        "Make runs reproducible to the bit, including resumed ones. Uses a single CPU core.", False
    )
    jit_compile: bool = option("Compile each step with XLA, once per length.", False)
    random_seed: int = option(
        "Seed of the weight initialisation, the data order, and what the model draws, such as dropout.",
        12345,
        least=0,
    )

    def __post_init__(self):
        check_ranges(self)
        on_tpu = self.distribution_strategy == "tpu"
        if on_tpu != (self.tpu is not None):
            raise InputError(
                "expected --distribution_strategy=tpu and --tpu together; received one"
            )
        if on_tpu and self.jit_compile:
            raise InputError("--jit_compile: a TPU's steps are always compiled; leave the flag out")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The folder, the format and the weights of an export."""

    export_dir: str | None = option("Folder to export the model to.", None)
    export_format: Form = option(
        describe_forms(),
        DEFAULT_FORM,
    )
    export_weights: Weights | None = option(
        f"{describe_weights()} Default: that of the model's computations.", None
    )

    @property
    def calibrates(self) -> bool:
        """Whether the export needs examples."""
        return self.export_weights in FORMS[self.export_format].calibrated

    def check_export(self, has_examples: bool) -> None:
        """Checks that the options go together, and with a run that reads examples or does not."""
        for name, default in (("export_format", DEFAULT_FORM), ("export_weights", None)):
            value = getattr(self, name)
            if value != default and not self.export_dir:
                raise InputError(f"--{name}={value}: expected --export_dir")
        check_form(self.export_format, self.export_weights, has_examples)
        if self.export_dir:
            with name_place("--export_dir"):
                files.refuse_for_tensorflow(self.export_dir)


def fixed_length(options: TrainingOptions) -> int | None:
    """Returns the sequence length of all batches on a TPU, or None if lengths may differ."""
    return options.max_seq_length if options.distribution_strategy == "tpu" else None


@dataclasses.dataclass(frozen=True)
class PretrainingRecipe:
    """The hyperparameters of pre-training, the same for all sizes; see `PretrainingOptions`."""

    optimizer: OptimizerName
    learning_rate: float
    train_batch_size: int
    num_train_steps: int
    warmup_steps: int
    masked_lm_prob: float
    mixed_precision: Literal["float32", "mixed_bfloat16"] = "float32"


# Lan et al. 2019, https://arxiv.org/abs/1909.11942, section 4.1; warm-up as in
# https://github.com/google-research/albert. Length and predictions are for files without records.
PAPER_PRETRAINING = PretrainingRecipe("lamb", 0.00176, 4096, 125000, 3125, 0.15)
PAPER_LENGTH, PAPER_PREDICTIONS = 512, 20


def _small(is_first: bool) -> PretrainingRecipe:
    """Returns the recipe for hours on a few cores; see docs/pretraining.md."""
    precision: Literal["float32", "mixed_bfloat16"] = (
        "mixed_bfloat16" if has_bfloat16() else "float32"
    )
    learning_rate, steps = (0.006, 8000) if is_first else (0.0025, 30000)
    return PretrainingRecipe(
        optimizer="lamb",
        learning_rate=learning_rate,
        train_batch_size=64,
        num_train_steps=steps,
        warmup_steps=100,
        masked_lm_prob=0.2,
        mixed_precision=precision,
    )


# Names of the rows, the values of --recipe.
RecipeName = Literal["paper_v1", "paper_v2", "small"]


class NamedRecipe(NamedTuple):
    """A value of `--recipe`."""

    description: str
    # Of the first run, which starts with random weights, or of one with `--init_checkpoint`.
    values: Callable[[bool], PretrainingRecipe]
    presets: Sequence[str] = ()  # whose sizes it is for, with their dropout; empty for any size


def _paper(version: str) -> NamedRecipe:
    return NamedRecipe(
        f"the paper's, with the dropout of version {version}, for its four sizes",
        lambda is_first: PAPER_PRETRAINING,
        [name for name in PRESETS if name.endswith(f"_v{version}")],
    )


PRETRAINING_RECIPES: Mapping[RecipeName, NamedRecipe] = {
    "paper_v1": _paper("1"),
    "paper_v2": _paper("2"),
    "small": NamedRecipe(
        "for hours on a few cores, first with two layers and sequences of 64 tokens, then with that run "
        "as --init_checkpoint, six layers and 128",
        _small,
    ),
}


def find_size(config: AlbertConfig, presets: Sequence[str]) -> AlbertConfig | None:
    """Returns the preset with the size of a config, whatever its vocabulary and dropout, or None."""
    others = ("vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob")
    for preset in map(AlbertConfig.from_preset, presets):
        if preset == dataclasses.replace(config, **{key: getattr(preset, key) for key in others}):
            return preset
    return None


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The hyperparameters of a task; see `FineTuningOptions`."""

    learning_rate: float
    train_batch_size: int
    dropout: float
    classifier_dropout: float
    num_train_steps: int
    warmup_steps: int
    max_seq_length: int
    optimizer: OptimizerName = "adamw"


# Lan et al. 2019, https://arxiv.org/abs/1909.11942, appendix, table 14 (GLUE; the rows of RACE and SQuAD
# too). Of RACE it is version 1's; version 2's has learning rate 1e-5 and dropout 0. RTE, STS-B and MRPC
# start from MNLI's checkpoint there.
PAPER: Mapping[str, Recipe] = {
    "cola": Recipe(1e-5, 16, 0.0, 0.1, 5336, 320, 512),
    "sts-b": Recipe(2e-5, 16, 0.0, 0.1, 3598, 214, 512),
    "sst-2": Recipe(1e-5, 32, 0.0, 0.1, 20935, 1256, 512),
    "mnli": Recipe(3e-5, 128, 0.0, 0.1, 10000, 1000, 512),
    "qnli": Recipe(1e-5, 32, 0.0, 0.1, 33112, 1986, 512),
    "qqp": Recipe(5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": Recipe(3e-5, 32, 0.1, 0.1, 800, 200, 512),
    "mrpc": Recipe(2e-5, 32, 0.0, 0.1, 800, 200, 512),
    "wnli": Recipe(2e-5, 16, 0.1, 0.1, 2000, 250, 512),
    "race": Recipe(2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
    "squad": Recipe(5e-5, 48, 0.0, 0.1, 3649, 365, 384),
}

# The same table, for questions that may have no answer.
PAPER_SQUAD_V2 = Recipe(3e-5, 48, 0.0, 0.1, 8144, 814, 512)
