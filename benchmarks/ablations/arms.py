"""The arms, the recipe that all of them share, and the paper's figures.

An arm is one row of one or more of the paper's tables, in small: a change of the base model.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from albert_tf.config import AlbertConfig

Objective = Literal["sop", "nsp", "none"]
# The objectives that label pairs.
PAIRS = ("sop", "nsp")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The training and evaluation that all arms share.

    Attributes:
        num_train_steps: updates of pre-training.
        search_steps: updates of a training that is for the learning rate.
        learning_rates: peaks that the search tries.
        train_batch_size: sequences per update.
        vocab_size: pieces of the SentencePiece vocabulary.
        max_seq_length: pieces in a sequence.
        max_predictions_per_seq: most masked pieces in a sequence.
        dupe_factor: copies of the training text, each with other segments and masks.
        eval_sequences: held-out sequences to evaluate on.
        probe_sequences: training sequences that a linear probe is fitted to.
        blimp_pairs: minimal pairs of each of BLiMP's paradigms.
        fine_tuning_rows: most training rows of a fine-tuning task.
        fine_tuning_steps: updates of fine-tuning.
        fine_tuning_learning_rate: peak of its learning rate.
    """

    num_train_steps: int = 2000
    search_steps: int = 800
    learning_rates: tuple[float, ...] = (4e-3, 8e-3, 2e-3)
    train_batch_size: int = 64
    vocab_size: int = 4000
    max_seq_length: int = 32
    max_predictions_per_seq: int = 5
    dupe_factor: int = 2
    eval_sequences: int = 2048
    probe_sequences: int = 4096
    blimp_pairs: int = 20
    fine_tuning_rows: int = 10_000
    fine_tuning_steps: int = 300
    fine_tuning_learning_rate: float = 3e-4


# What of a recipe decides the result of a search for the learning rate.
_SEARCH_FIELDS = (
    *("search_steps", "train_batch_size", "vocab_size", "max_seq_length"),
    *("max_predictions_per_seq", "dupe_factor", "eval_sequences"),
)

FULL = Recipe()
SMOKE = Recipe(
    num_train_steps=4,
    search_steps=2,
    learning_rates=(1e-3, 2e-3),
    train_batch_size=4,
    vocab_size=120,
    max_seq_length=24,
    max_predictions_per_seq=3,
    dupe_factor=1,
    eval_sequences=16,
    probe_sequences=16,
    blimp_pairs=1,
    fine_tuning_rows=40,
    fine_tuning_steps=2,
)


@dataclasses.dataclass(frozen=True)
class Arm:
    """A model to train.

    Attributes:
        changes: what differs from the base model's config.
        objective: the sentence objective.
        family: the arms that share a learning rate, a key of `FAMILIES`.
        start: the arm whose weights the training starts from.
        as_long_as: gives the arm the training time of this arm instead of its number of updates.
        twin: for `as_long_as`, the same model in another arm, whose updates were timed.
    """

    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    objective: Objective = "sop"
    family: str = "shared"
    start: str | None = None
    as_long_as: str | None = None
    twin: str | None = None

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
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
        return AlbertConfig(**{**base, **self.changes})

    def recipe_id(self, recipe: Recipe, search: bool = False) -> str:
        """Returns a hash of the arm's definition and recipe, which results are stored under.

        Args:
            recipe: the recipe.
            search: whether the training is for the learning rate, so that only a part of it matters.
        """
        matters = dataclasses.asdict(recipe)
        if search:
            matters = {name: matters[name] for name in _SEARCH_FIELDS}
        definition = [dataclasses.asdict(self), matters]
        return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()[:8]


BASE = "E16 shared"


def _sharing_arms() -> dict[str, Arm]:
    """Returns the arms of tables 3 and 4."""
    parts = {
        "all": "shared",
        "attention": "shared attention",
        "ffn": "shared FFN",
        "none": "unshared",
    }
    return {
        f"E{size} {parts[sharing]}": Arm(
            {"embedding_size": size, "sharing": sharing},
            family="unshared" if sharing == "none" else "shared",
        )
        for size in (8, 16, 32, 64)
        for sharing in parts
        if size in (16, 64) or sharing in ("all", "none")
    }


def _dropout(rate: float) -> dict[str, float]:
    return dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), rate)


ARMS: dict[str, Arm] = {
    **_sharing_arms(),
    "no sentence loss": Arm(objective="none"),
    "NSP": Arm(objective="nsp"),
    "dropout 0.1": Arm(_dropout(0.1)),
    "1 layer": Arm({"num_hidden_layers": 1}),
    "3 layers": Arm({"num_hidden_layers": 3}, start="1 layer"),
    "6 layers": Arm({"num_hidden_layers": 6}, start="3 layers"),
    "12 layers": Arm({"num_hidden_layers": 12}, start="6 layers"),
    "H32": Arm({"hidden_size": 32, "num_hidden_layers": 3}, family="H32"),
    "H64": Arm({"num_hidden_layers": 3}, family="H64"),
    "H128": Arm({"hidden_size": 128, "num_hidden_layers": 3}, family="H128"),
    "ALBERT H128": Arm({"hidden_size": 128}, family="ALBERT H128"),
    "BERT H64": Arm(
        {"embedding_size": 64, "sharing": "none"},
        family="unshared",
        as_long_as="ALBERT H128",
        twin="E64 unshared",
    ),
}

# Family -> the arm with which its learning rate is searched for.
FAMILIES = {
    "shared": BASE,
    "unshared": "E16 unshared",
    **{arm: arm for arm in ("H32", "H64", "H128", "ALBERT H128")},
}


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        arm: a key of `ARMS`.
        paper: the paper's row: name, parameters, SST-2 accuracy, and average over its five tasks.
    """

    arm: str
    paper: tuple[str, str, str, str]


class Claim(NamedTuple):
    """A difference that the paper found.

    Attributes:
        text: the claim.
        higher: the arm that is better.
        lower: the arm that is worse.
        difference: the paper's, in points of its average or of the accuracy that the text names.
        metrics: what decides it here, each the higher the better; keys of `report.METRICS`.
    """

    text: str
    higher: str
    lower: str
    difference: str
    metrics: tuple[str, ...] = ("dev_mean", "masked_lm_accuracy")


class Table(NamedTuple):
    """One of the paper's tables: its rows and its claims."""

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms to train."""
        return tuple(row.arm for row in self.rows)


def _row(arm: str, paper: str) -> Row:
    return Row(arm, tuple(cell.strip() for cell in paper.split("|")))


TABLES: dict[int, Table] = {
    3: Table(
        (
            _row("E8 unshared", "not shared, E = 64 | 87M | 91.5 | 81.3"),
            _row("E16 unshared", "not shared, E = 128 | 89M | 91.5 | 81.7"),
            _row("E32 unshared", "not shared, E = 256 | 93M | 91.9 | 81.8"),
            _row("E64 unshared", "not shared, E = H | 108M | 92.8 | 82.3"),
            _row("E8 shared", "all shared, E = 64 | 10M | 89.4 | 79.0"),
            _row(BASE, "all shared, E = 128 | 12M | 90.3 | 80.1"),
            _row("E32 shared", "all shared, E = 256 | 16M | 90.3 | 79.6"),
            _row("E64 shared", "all shared, E = H | 31M | 90.6 | 79.8"),
        ),
        (
            Claim("not shared: E = H beats E = 64", "E64 unshared", "E8 unshared", "+1.0"),
            Claim("all shared: E = 128 beats E = 64", BASE, "E8 shared", "+1.1"),
            Claim("all shared: E = 128 beats E = H", BASE, "E64 shared", "+0.3"),
        ),
    ),
    4: Table(
        (
            _row("E64 shared", "E = H, all | 31M | 90.6 | 79.8"),
            _row("E64 shared attention", "E = H, attention | 83M | 91.4 | 81.6"),
            _row("E64 shared FFN", "E = H, FFN | 57M | 90.8 | 79.5"),
            _row("E64 unshared", "E = H, none | 108M | 92.8 | 82.3"),
            _row(BASE, "E = 128, all | 12M | 90.3 | 80.1"),
            _row("E16 shared attention", "E = 128, attention | 64M | 91.9 | 81.7"),
            _row("E16 shared FFN", "E = 128, FFN | 38M | 91.7 | 80.2"),
            _row("E16 unshared", "E = 128, none | 89M | 91.5 | 81.6"),
        ),
        tuple(
            Claim(f"{name}: {text}", f"{size} {higher}", f"{size} {lower}", difference)
            for size, name, differences in (
                ("E64", "E = H", ("+2.5", "+2.1")),
                ("E16", "E = 128", ("+1.5", "+1.5")),
            )
            for difference, (text, higher, lower) in zip(
                differences,
                (
                    ("sharing nothing beats sharing all", "unshared", "shared"),
                    ("sharing attention beats sharing FFN", "shared attention", "shared FFN"),
                ),
                strict=True,
            )
        ),
    ),
    5: Table(
        (
            _row("no sentence loss", "none | 12M | 89.9 | 79.0"),
            _row("NSP", "NSP | 12M | 91.1 | 79.2"),
            _row(BASE, "SOP | 12M | 90.3 | 80.1"),
        ),
        (
            Claim("SOP beats no sentence loss", BASE, "no sentence loss", "+1.1", ("dev_mean",)),
            Claim("SOP beats NSP", BASE, "NSP", "+0.9", ("dev_mean",)),
            Claim("on SOP pairs, SOP beats NSP", BASE, "NSP", "+34.5", ("sop_accuracy",)),
            Claim(
                "on NSP pairs, SOP beats no sentence loss",
                *(BASE, "no sentence loss"),
                *("+26.5", ("nsp_accuracy",)),
            ),
        ),
    ),
    6: Table(
        (
            _row("BERT H64", "BERT-large, 400k updates | 334M | 94.6 | 87.2"),
            _row("ALBERT H128", "ALBERT-xxlarge, 125k updates | 235M | 95.4 | 88.7"),
        ),
        (Claim("in the same time, the wide ALBERT beats BERT", "ALBERT H128", "BERT H64", "+1.5"),),
    ),
    8: Table(
        (
            _row("dropout 0.1", "xxlarge, with dropout | 235M | 96.3 | 90.4"),
            _row(BASE, "xxlarge, without | 235M | 96.5 | 90.7"),
        ),
        (Claim("no dropout beats dropout", BASE, "dropout 0.1", "+0.3"),),
    ),
    11: Table(
        (
            _row("1 layer", "1 layer | 18M | 80.8 | 52.9"),
            _row("3 layers", "3 layers | 18M | 86.7 | 71.2"),
            _row("6 layers", "6 layers | 18M | 88.9 | 77.2"),
            _row("12 layers", "12 layers | 18M | 91.7 | 81.5"),
        ),
        (
            Claim("3 layers beat 1", "3 layers", "1 layer", "+18.3"),
            Claim("6 layers beat 3", "6 layers", "3 layers", "+6.0"),
            Claim("12 layers beat 6", "12 layers", "6 layers", "+4.3"),
        ),
    ),
    12: Table(
        (
            _row("H32", "H = 1024 | 18M | 86.7 | 71.2"),
            _row("H64", "H = 2048 | 60M | 88.6 | 74.6"),
            _row("H128", "H = 4096 | 225M | 90.4 | 76.3"),
        ),
        (
            Claim("twice the width is better", "H64", "H32", "+3.4"),
            Claim("four times the width is better still", "H128", "H64", "+1.7"),
        ),
    ),
}

# The arms that are evaluated on pairs of both kinds.
CROSS_EVALUATED = TABLES[5].arms
# The arms and the claims of figure 1.
FIGURE_1 = (BASE, "E16 unshared")
FIGURE_1_CLAIMS = tuple(
    Claim(text, *FIGURE_1, "", (metric,))
    for text, metric in {
        "shared layers change the states more evenly": "evenness",
        "their distances change more smoothly from layer to layer": "smooth_distances",
        "their angles change more smoothly from layer to layer": "smooth_degrees",
        "shared layers move the states less": "small_distances",
        "shared layers turn the states less": "small_degrees",
    }.items()
)
