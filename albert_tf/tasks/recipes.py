"""Recipes for pre-training, of which the paper's is also the default, and the paper's for fine-tuning."""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.processor import has_bfloat16

PretrainingRecipeName = Literal["paper_v1", "paper_v2", "small"]


@dataclasses.dataclass(frozen=True)
class PretrainingRecipe:
    """The hyperparameters of pre-training, the same for all sizes; see `PretrainingOptions`."""

    optimizer: Literal["lamb", "adamw"]
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


def small_pretraining(is_first: bool) -> PretrainingRecipe:
    """Returns the recipe for hours on a few cores; see docs/pretraining.md.

    Args:
        is_first: whether the run starts with random weights, which learn with few layers only, instead of
            those of the first run.
    """
    precision = "mixed_bfloat16" if has_bfloat16() else "float32"
    if is_first:
        return PretrainingRecipe("lamb", 0.006, 64, 8000, 100, 0.2, precision)
    return PretrainingRecipe("lamb", 0.0025, 64, 30000, 100, 0.2, precision)


def find_size(config: AlbertConfig, recipe: PretrainingRecipeName) -> AlbertConfig | None:
    """Returns the preset with the size of a config, which has the dropout of the recipe's version.

    Args:
        config: any config. Its vocabulary and dropout do not count.
        recipe: name of a recipe of the paper.

    Returns:
        The preset; None if the config has none of the four sizes.
    """
    dropped = {"vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob"}
    for name in PRESETS:
        preset = AlbertConfig.from_preset(name)
        of_preset = {key: getattr(preset, key) for key in dropped}
        if name.endswith(recipe.removeprefix("paper")) and preset == dataclasses.replace(
            config, **of_preset
        ):
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


# Lan et al. 2019, https://arxiv.org/abs/1909.11942, appendix, table 14 (GLUE; RACE's row too). Of RACE it
# is version 1's; version 2's has learning rate 1e-5 and dropout 0. RTE, STS-B and MRPC start from MNLI's
# checkpoint there.
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
}

# The same table.
PAPER_SQUAD_V1 = Recipe(5e-5, 48, 0.0, 0.1, 3649, 365, 384)
PAPER_SQUAD_V2 = Recipe(3e-5, 48, 0.0, 0.1, 8144, 814, 512)
