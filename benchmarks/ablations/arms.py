"""The arms, the recipe that all of them share, and the paper's figures.

An arm is one row of one or more of the paper's tables, in small: a change of the base model. Results do
not say with which arms and recipe they were made: with changed ones, use another `--results`.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert_tf.config import AlbertConfig

OBJECTIVES = ("sop", "nsp", "none")
# The objectives that label pairs.
PAIRS = ("sop", "nsp")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The training and evaluation that all arms share."""

    num_train_steps: int = 2000
    train_batch_size: int = 64
    vocab_size: int = 4000
    max_seq_length: int = 32
    max_predictions_per_seq: int = 5
    dupe_factor: int = 2
    eval_sequences: int = 2048
    probe_sequences: int = 4096  # training sequences that a linear probe is fitted to
    blimp_pairs: int = 20  # of each of BLiMP's paradigms
    fine_tuning_steps: int = 300
    fine_tuning_learning_rate: float = 3e-4


BASE, UNSHARED = "E16 shared", "E16 unshared"


@dataclasses.dataclass(frozen=True)
class Arm:
    """A model to train: what differs from the base model and its training."""

    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the config
    objective: str = "sop"
    learning_rate: float = 4e-3  # the best of 0.002, 0.004 and 0.008 after 800 updates
    start: str | None = None  # the arm whose weights the training starts from
    # Two arms: the one whose training time this arm gets instead of its number of updates, and one with
    # this arm's model, whose updates were timed.
    as_long_as: tuple[str, ...] = ()

    def config(self, recipe: Recipe) -> AlbertConfig:
        """Returns the model; by default six layers of width 64, E = 16, all shared, no dropout."""
        hidden_size = self.changes.get("hidden_size", 64)
        base = {
            "vocab_size": recipe.vocab_size,
            "embedding_size": 16,
            "hidden_size": hidden_size,
            "num_hidden_layers": 6,
            "num_attention_heads": hidden_size // 16,
            "intermediate_size": 4 * hidden_size,
            "max_position_embeddings": recipe.max_seq_length,
            # 0.02 is for a width of 768; the scale that keeps sums alike grows with 1 / sqrt(width).
            "initializer_range": round(0.02 * math.sqrt(768 / hidden_size), 3),
        }
        return AlbertConfig(**{**base, **self.changes})


def _sharing(size: int, sharing: str) -> Arm:
    """Returns an arm of tables 3 and 4."""
    return Arm({"embedding_size": size, "sharing": sharing})


ARMS: dict[str, Arm] = {
    **{f"E{size} shared": _sharing(size, "all") for size in (8, 16, 32, 64)},
    **{f"E{size} unshared": _sharing(size, "none") for size in (8, 16, 32, 64)},
    **{f"E{size} shared attention": _sharing(size, "attention") for size in (16, 64)},
    **{f"E{size} shared FFN": _sharing(size, "ffn") for size in (16, 64)},
    "no sentence loss": Arm(objective="none"),
    "NSP": Arm(objective="nsp"),
    "dropout 0.1": Arm({"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}),
    "1 layer": Arm({"num_hidden_layers": 1}),
    "3 layers": Arm({"num_hidden_layers": 3}, start="1 layer"),
    "6 layers": Arm({"num_hidden_layers": 6}, start="3 layers"),
    "12 layers": Arm({"num_hidden_layers": 12}, start="6 layers"),
    "H32": Arm({"hidden_size": 32, "num_hidden_layers": 3}, learning_rate=8e-3),
    "H64": Arm({"num_hidden_layers": 3}, learning_rate=8e-3),
    "H128": Arm({"hidden_size": 128, "num_hidden_layers": 3}, learning_rate=8e-3),
    "ALBERT H128": Arm({"hidden_size": 128}),
    "BERT H64": dataclasses.replace(
        _sharing(64, "none"), as_long_as=("ALBERT H128", "E64 unshared")
    ),
}


class Claim(NamedTuple):
    """A difference that the paper found."""

    text: str
    higher: str  # the better arm
    lower: str
    difference: str = ""  # the paper's, in points of its average or of the accuracy in the text
    metric: str = "masked_lm_accuracy"  # a key of `report.METRICS`


# Table -> arm -> the paper's name, parameters, SST-2 accuracy, and average over its five tasks.
TABLES: dict[int, dict[str, str]] = {
    3: {
        "E8 unshared": "not shared, E = 64 | 87M | 91.5 | 81.3",
        UNSHARED: "not shared, E = 128 | 89M | 91.5 | 81.7",
        "E32 unshared": "not shared, E = 256 | 93M | 91.9 | 81.8",
        "E64 unshared": "not shared, E = H | 108M | 92.8 | 82.3",
        "E8 shared": "all shared, E = 64 | 10M | 89.4 | 79.0",
        BASE: "all shared, E = 128 | 12M | 90.3 | 80.1",
        "E32 shared": "all shared, E = 256 | 16M | 90.3 | 79.6",
        "E64 shared": "all shared, E = H | 31M | 90.6 | 79.8",
    },
    4: {
        "E64 shared": "E = H, all | 31M | 90.6 | 79.8",
        "E64 shared attention": "E = H, attention | 83M | 91.4 | 81.6",
        "E64 shared FFN": "E = H, FFN | 57M | 90.8 | 79.5",
        "E64 unshared": "E = H, none | 108M | 92.8 | 82.3",
        BASE: "E = 128, all | 12M | 90.3 | 80.1",
        "E16 shared attention": "E = 128, attention | 64M | 91.9 | 81.7",
        "E16 shared FFN": "E = 128, FFN | 38M | 91.7 | 80.2",
        UNSHARED: "E = 128, none | 89M | 91.5 | 81.6",
    },
    5: {
        "no sentence loss": "none | 12M | 89.9 | 79.0",
        "NSP": "NSP | 12M | 91.1 | 79.2",
        BASE: "SOP | 12M | 90.3 | 80.1",
    },
    6: {
        "BERT H64": "BERT-large, 400k updates | 334M | 94.6 | 87.2",
        "ALBERT H128": "ALBERT-xxlarge, 125k updates | 235M | 95.4 | 88.7",
    },
    8: {
        "dropout 0.1": "xxlarge, with dropout | 235M | 96.3 | 90.4",
        BASE: "xxlarge, without | 235M | 96.5 | 90.7",
    },
    11: {
        "1 layer": "1 layer | 18M | 80.8 | 52.9",
        "3 layers": "3 layers | 18M | 86.7 | 71.2",
        "6 layers": "6 layers | 18M | 88.9 | 77.2",
        "12 layers": "12 layers | 18M | 91.7 | 81.5",
    },
    12: {
        "H32": "H = 1024 | 18M | 86.7 | 71.2",
        "H64": "H = 2048 | 60M | 88.6 | 74.6",
        "H128": "H = 4096 | 225M | 90.4 | 76.3",
    },
}
# The arms that are evaluated on pairs of both kinds.
CROSS_EVALUATED = tuple(TABLES[5])
# The arms of figure 1.
FIGURE_1 = (BASE, UNSHARED)

_ATTENTION = "sharing attention beats sharing FFN"
_LOSS = "SOP beats no sentence loss"
CLAIMS: dict[str, tuple[Claim, ...]] = {
    "table 3": (
        Claim("not shared: E = H beats E = 64", "E64 unshared", "E8 unshared", "+1.0"),
        Claim("all shared: E = 128 beats E = 64", BASE, "E8 shared", "+1.1"),
        Claim("all shared: E = 128 beats E = H", BASE, "E64 shared", "+0.3"),
    ),
    "table 4": (
        Claim("E = H: sharing nothing beats sharing all", "E64 unshared", "E64 shared", "+2.5"),
        Claim(f"E = H: {_ATTENTION}", "E64 shared attention", "E64 shared FFN", "+2.1"),
        Claim("E = 128: sharing nothing beats sharing all", UNSHARED, BASE, "+1.5"),
        Claim(f"E = 128: {_ATTENTION}", "E16 shared attention", "E16 shared FFN", "+1.5"),
    ),
    "table 5": (
        Claim(_LOSS, BASE, "no sentence loss", "+1.1", "dev_mean"),
        Claim("SOP beats NSP", BASE, "NSP", "+0.9", "dev_mean"),
        Claim("on SOP pairs, SOP beats NSP", BASE, "NSP", "+34.5", "sop_accuracy"),
        Claim(f"on NSP pairs, {_LOSS}", BASE, "no sentence loss", "+26.5", "nsp_accuracy"),
    ),
    "table 6": (
        Claim("in the same time, the wide ALBERT beats BERT", "ALBERT H128", "BERT H64", "+1.5"),
    ),
    "table 8": (Claim("no dropout beats dropout", BASE, "dropout 0.1", "+0.3"),),
    "table 11": (
        Claim("3 layers beat 1", "3 layers", "1 layer", "+18.3"),
        Claim("6 layers beat 3", "6 layers", "3 layers", "+6.0"),
        Claim("12 layers beat 6", "12 layers", "6 layers", "+4.3"),
    ),
    "table 12": (
        Claim("twice the width is better", "H64", "H32", "+3.4"),
        Claim("four times the width is better still", "H128", "H64", "+1.7"),
    ),
    "figure 1": tuple(
        Claim(text, *FIGURE_1, metric=metric)
        for metric, text in {
            "evenness": "shared layers change the states more evenly",
            "smooth_distances": "their distances change more smoothly from layer to layer",
            "smooth_degrees": "their angles change more smoothly from layer to layer",
            "small_distances": "shared layers move the states less",
            "small_degrees": "shared layers turn the states less",
        }.items()
    ),
}
