"""The values of the options that are not given.

They are the recipe's, if there is one, and without training those of the trained folder, so that
prediction needs nothing else. Otherwise a training chooses them from its model and its data.

Few rows need many passes, and small models take higher learning rates than the paper's. A pooler that was
trained to tell the order of sentences is saturated, so hardly a gradient passes: a new one learns more
from few rows (Zhang et al. 2020, https://arxiv.org/abs/2006.05987). docs/measurements.md has what each
choice was measured on.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.squad_questions import read_questions
from albert_tf.data.fine_tuning.task_table import SQUAD_TASK
from albert_tf.errors import InputError
from albert_tf.kinds import Kind
from albert_tf.kinds.registry import kind_in
from albert_tf.model_folder import ModelFolder, find_best, read_own
from albert_tf.options.kinds import option_fields
from albert_tf.tasks.common import described_folder
from albert_tf.tasks.fine_tuning.options import LENGTHS, FineTuningOptions
from albert_tf.tasks.training_options import PAPER, PAPER_SQUAD_V2, Recipe
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.vocabulary_files import vocabulary_flags

_DEFAULTS = {"do_lower_case": True, "classifier_dropout": 0.1}
_VOCABULARIES = ("spm_model_file", "vocab_file")

# Keys of the run options: the names of the options that were chosen, and how often the training started
# again.
CHOSEN, RESTARTS = "chosen", "restarts"

_NAMES = (
    *("learning_rate", "optimizer", "train_batch_size", "num_train_steps", "warmup_proportion"),
    *("max_seq_length", "new_pooler"),
)
_PARTNERS = dict(LENGTHS) | {second: first for first, second in LENGTHS}

# Wider models than base take less than its rate, down to the paper's least, and narrower ones more, up to
# the highest of Turc et al. 2019, https://arxiv.org/abs/1908.08962.
_LEAST_RATE, _MOST_RATE = 1e-5, 3e-4
_WIDTH_OF_BASE = 768

# With fewer rows the rate is half of it.
_FEW_ROWS = 200

# From so many rows on, batches are of 32.
_MANY_ROWS, _BATCH_OF_FEW, _BATCH_OF_MANY = 4000, 16, 32
# The passes of the original's fine-tuning, and more the fewer the rows: 22 of 90, 9 of 360, 5.5 of 2,000.
_PASSES, _MORE, _LEAST_EXAMPLES = 3, 110, 2000
_WARMUP_PROPORTION = 0.1
# A pooler of the pre-training does no harm to a training on this many rows.
_ENOUGH_FOR_ANY_POOLER = 20000

_MOST_RESTARTS = 2

# Share of the texts that the length leaves whole, and the number of texts that are measured.
_WHOLE, _MEASURED = 0.99, 1000
# Lengths are multiples of it.
_LENGTH_STEP = 8

_Options = TypeVar("_Options", bound=FineTuningOptions)


@dataclasses.dataclass(frozen=True)
class Choice:
    """Names of the options that were chosen, and how often the training started again."""

    names: tuple[str, ...] = ()
    restarts: int = 0

    @property
    def may_start_again(self) -> bool:
        """Whether a training that has collapsed may be repeated at another rate."""
        return "learning_rate" in self.names and self.restarts < _MOST_RESTARTS

    def noted(self) -> dict[str, Any]:
        """Returns what the run options note of it."""
        return {CHOSEN: list(self.names), RESTARTS: self.restarts}


def keep_chosen(options: _Options) -> tuple[_Options, Choice]:
    """Returns the options of a run that resumes, with the values chosen or given when it began.

    Flags that are given take precedence.
    """
    folder = described_folder(options)
    if not options.do_train or options.recipe or folder is None:
        return options, Choice()
    saved = read_own(folder).get("options", {})
    kept = {
        name: saved[name]
        for choice in _NAMES
        for name in (choice, _PARTNERS.get(choice))
        if saved.get(name) is not None and _is_left_out(options, choice)
    }
    if "pooler" in options.frozen_parts:  # which is refused below if the run trains other parts
        kept.pop("new_pooler", None)
    names = tuple(name for name in saved.get(CHOSEN, ()) if name in kept)
    return dataclasses.replace(options, **kept), Choice(names, saved.get(RESTARTS, 0))


def complete(options: _Options, train: Any = None) -> _Options:
    """Returns the options with values that do not depend on the data.

    `train` is a training set in memory.
    """
    recipe = _find_recipe(options, train)
    values = _DEFAULTS | (_recipe_values(options, recipe) if recipe else _folder_values(options))
    for pair in (*LENGTHS, _VOCABULARIES):
        if any(getattr(options, name) is not None for name in pair):
            values = {name: value for name, value in values.items() if name not in pair}
        elif values.get(pair[0]) is not None:
            values.pop(pair[1], None)
    missing = {name: value for name, value in values.items() if getattr(options, name) is None}
    completed = dataclasses.replace(options, **missing)
    if completed.task_name is None or completed.albert_config_file is None:
        raise InputError(
            f"--output_dir={options.output_dir}: holds no fine-tuned model; expected a folder that "
            "--do_train wrote"
        )
    if recipe:
        names = (*dataclasses.asdict(recipe), "num_train_epochs", "warmup_proportion")
        described = ((name, getattr(completed, name)) for name in names)
        used = ", ".join(f"{name} {value}" for name, value in described if value is not None)
        print(f"recipe of the paper: {used}")
    return completed


def choose_length(
    kind: Kind, train: Sequence[Any], tokenizer: Tokenizer, most: int, seed: int
) -> int:
    """Returns the kind's length, or a greater one, at most `most`, that leaves nearly all texts whole."""
    length = min(kind.max_seq_length, most)
    if kind.finds_spans:
        return length
    rng = np.random.default_rng(seed)
    measured = rng.choice(len(train), min(len(train), _MEASURED), replace=False)
    whole = set_length(kind, most).encode([train[row] for row in measured], tokenizer)
    needed = np.quantile(whole.example_lengths, _WHOLE, method="higher")
    return min(max(length, math.ceil(needed / _LENGTH_STEP) * _LENGTH_STEP), most)


def set_length(kind: Kind, max_seq_length: int) -> Kind:
    """Returns a kind with another length; options that had their defaults get those of this length."""
    defaults = {
        name: None
        for name, option in option_fields(type(kind)).items()
        if option.default is None and kind == dataclasses.replace(kind, **{name: None})
    }
    return dataclasses.replace(kind, max_seq_length=max_seq_length, **defaults)


def choose(
    options: _Options, config: AlbertConfig, kind: Kind, rows: int, kept: Choice
) -> tuple[_Options, Choice]:
    """Returns the options with all values, and prints the chosen ones with the reasons in one line.

    `rows` is the number of training examples, and `kept` what the run chose when it began.
    """
    reasons: dict[str, str] = {}
    values = _values(options, config, kind, rows, reasons)
    chosen = {name: value for name, value in values.items() if _is_left_out(options, name)}
    options = dataclasses.replace(options, **chosen)
    names = tuple(name for name in _NAMES if name in chosen or name in kept.names)
    if names:
        # The config of a run that resumes no longer tells what the rate was chosen by.
        why = {name: f" ({reasons[name]})" for name in reasons.keys() & chosen}
        described = ", ".join(_describe(options, name, rows, why) for name in names)
        when = " when the run began" if kept.names else ""
        print(f"chosen for {rows} training examples{when}: {described}; a flag overrides each")
    return options, Choice(names, kept.restarts)


def start_again(options: _Options, choice: Choice) -> tuple[_Options, Choice]:
    """Returns what a training that has collapsed starts again with: half the rate; says so."""
    halved = options.learning_rate / 2
    print(
        f"the training has collapsed at the chosen learning rate of {options.learning_rate:g}: starting "
        f"again at half of it; --learning_rate sets another"
    )
    restarts = choice.restarts + 1
    return (
        dataclasses.replace(options, learning_rate=halved),
        dataclasses.replace(choice, restarts=restarts),
    )


def _find_recipe(options: FineTuningOptions, train: Any) -> Recipe | None:
    if not (options.recipe and options.do_train):
        return None
    is_squad = options.task.name == SQUAD_TASK.name
    return (
        PAPER_SQUAD_V2 if is_squad and _is_version_2(options, train) else PAPER[options.task.name]
    )


def _is_version_2(options: FineTuningOptions, train: Any) -> bool:
    if options.version_2_with_negative is not None or options.data_source == "tfds":
        return bool(options.version_2_with_negative)
    source = options.train_file if train is None else train
    questions = read_questions(source, "train", training=True)
    return any(question.is_impossible and question.is_trainable for question in questions)


def _recipe_values(options: FineTuningOptions, recipe: Recipe) -> dict[str, Any]:
    values = dataclasses.asdict(recipe)
    if options.num_train_steps is not None or options.num_train_epochs is not None:
        # In a training of another length the warm-up is the same fraction.
        del values["warmup_steps"]
        values["warmup_proportion"] = recipe.warmup_steps / recipe.num_train_steps
    return values


def _folder_values(options: FineTuningOptions) -> dict[str, Any]:
    """Returns what the folder of the model determines that is used without training."""
    best = None if options.do_train else find_best(options.output_dir)
    folder = ModelFolder(best) if best else None
    if not (folder and folder.own):
        return {}
    values = {
        **vocabulary_flags(folder),
        "albert_config_file": folder.config_file,
        "dropout": folder.own.get("options", {}).get("dropout"),
    }
    if kind := kind_in(folder):
        values |= {"task_name": kind.task_name, "max_seq_length": kind.max_seq_length}
    return {name: value for name, value in values.items() if value is not None}


def _values(
    options: FineTuningOptions,
    config: AlbertConfig,
    kind: Kind,
    rows: int,
    reasons: dict[str, str],
) -> Mapping[str, Any]:
    recommended = StoredModel.of_config(options.albert_config_file).recommended_rate
    rate, reason = recommended, "the model recommends"
    if recommended is None:
        rate, reason = _width_rate(config, kind), f"suits a width of {config.hidden_size}"
    if rows < _FEW_ROWS:
        rate, reason = rate / 2, f"half of what {reason}"
    reasons["learning_rate"] = reason
    batch_size = options.train_batch_size
    if batch_size is None:
        needs_others = kind.least_micro_batch > 1  # the examples of a batch are compared
        is_small = rows < _MANY_ROWS and not needs_others
        batch_size = _BATCH_OF_FEW if is_small else _BATCH_OF_MANY
    examples = max(_PASSES * rows + _MORE * math.sqrt(rows), _LEAST_EXAMPLES)
    values = {
        "learning_rate": rate,
        # Without bias correction the first updates undo a part of a pre-training (Mosbach et al. 2021,
        # https://arxiv.org/abs/2006.04884), unless the rate was measured so.
        "optimizer": "debiased_adamw" if recommended is None else "adamw",
        "train_batch_size": batch_size,
        "num_train_steps": math.ceil(examples / batch_size),
        "warmup_proportion": _WARMUP_PROPORTION,
        "max_seq_length": kind.max_seq_length,
    }
    if options.init_checkpoint and kind.reads_pooler:
        # A run that resumes no longer needs the model that it started from.
        is_new = not (options.recipe or described_folder(options))
        is_wanted = is_new and rows < _ENOUGH_FOR_ANY_POOLER
        is_wanted &= "pooler" not in options.frozen_parts
        values["new_pooler"] = (
            is_wanted and not StoredModel.at(options.init_checkpoint).is_fine_tuned
        )
    return values


def _width_rate(config: AlbertConfig, kind: Kind) -> float:
    rate = kind.base_learning_rate * (_WIDTH_OF_BASE / config.hidden_size) ** 2
    return float(f"{min(max(rate, _LEAST_RATE), _MOST_RATE):.1g}")


def _is_left_out(options: FineTuningOptions, name: str) -> bool:
    return all(getattr(options, flag) is None for flag in (name, _PARTNERS.get(name, name)))


def _describe(options: FineTuningOptions, name: str, rows: int, why: Mapping[str, str]) -> str:
    value = getattr(options, name)
    if name == "learning_rate":
        return f"--{name}={value:g}{why.get(name, '')}"
    if name == "num_train_steps":
        return f"--{name}={value} ({value * options.train_batch_size / rows:.3g} passes)"
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    return f"--{name}={value}"
