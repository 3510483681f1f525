"""The values that fine-tuning adds to the options that are given, see `albert_tf.options.resolution`.

They are the recipe's, if there is one, and without training those of the trained folder, so that
prediction needs nothing else. Otherwise a training chooses them from its model and its data.

Few rows need many passes, and small models take higher learning rates than the paper's. A pooler that was
trained to tell the order of sentences is saturated, so hardly a gradient passes: a new one learns more
from few rows (Zhang et al. 2020, https://arxiv.org/abs/2006.05987). docs/measurements.md has what each
choice was measured on.
"""

import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.squad_questions import read_questions
from albert_tf.data.fine_tuning.task_table import SQUAD_TASK
from albert_tf.errors import InputError, warn
from albert_tf.kinds import Embedding, Kind
from albert_tf.kinds.registry import find_kind
from albert_tf.kinds.stored import embedder_kind, names_of_layers
from albert_tf.options.resolution import SOURCES, Resolution
from albert_tf.tasks.fine_tuning.options import DEFAULT_VALUES, FineTuningOptions
from albert_tf.tasks.fine_tuning.teacher_options import TEACHER_WEIGHT
from albert_tf.tasks.optimizers import OptimizerName, check_rate
from albert_tf.tasks.stored_run import StoredRun
from albert_tf.tasks.training_options import PAPER, PAPER_SQUAD_V2, Recipe
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.vocabulary_files import vocabulary_flags

# Key of the run options: how often the training started again.
RESTARTS = "restarts"

_CHOSEN = (
    *("learning_rate", "optimizer", "train_batch_size", "num_train_steps", "warmup_proportion"),
    *("max_seq_length", "new_pooler", "pooling"),
)

# Wider models than base take less than its rate, down to the paper's least, and narrower ones more, up to
# the highest of Turc et al. 2019, https://arxiv.org/abs/1908.08962.
_LEAST_RATE, _MOST_RATE = 1e-5, 3e-4
_WIDTH_OF_BASE = 768

# The optimizers that the rates are for. Without bias correction the first updates undo a part of a
# pre-training (Mosbach et al. 2021, https://arxiv.org/abs/2006.04884), unless the rate was measured so.
_WIDTH_WITH: OptimizerName = "debiased_adamw"
_RECOMMENDED_WITH: OptimizerName = "adamw"

# With fewer rows the rate is half of it.
_FEW_ROWS = 200

# From so many rows on, batches are of 32.
_MANY_ROWS, _BATCH_OF_FEW, _BATCH_OF_MANY = 4000, 16, 32
# The passes of the original's fine-tuning, and more the fewer the rows: 22 of 90, 9 of 360, 5.5 of 2,000.
_PASSES, _MORE, _LEAST_EXAMPLES = 3, 110, 2000
# A pooler of the pre-training does no harm to a training on this many rows.
_ENOUGH_FOR_ANY_POOLER = 20000

_MOST_RESTARTS = 2

# Share of the texts that the length leaves whole, and the number of texts that are measured.
_WHOLE, _MEASURED = 0.99, 1000
# Lengths are multiples of it.
_LENGTH_STEP = 8


def may_start_again(values: Resolution[Any], restarts: int) -> bool:
    """Returns whether a training that has collapsed may be repeated at another rate."""
    return values.is_chosen("learning_rate") and restarts < _MOST_RESTARTS


def add_known(
    values: Resolution[FineTuningOptions], stored: StoredRun | None, train: Any = None
) -> None:
    """Adds the values that do not depend on the data. `train` is a training set in memory."""
    given = values.given
    recipe = _find_recipe(given, train)
    if recipe:
        check_rate(values, recipe.optimizer)
        values.add("recipe", _recipe_values(given, recipe))
    elif stored and given.do_train:
        _add_first_run(values, stored)
    elif stored:
        values.add("folder", _folder_values(stored))
    fixed = {name: value for name, value in DEFAULT_VALUES.items() if name not in _CHOSEN}
    values.add("default", fixed)
    if given.teacher:
        values.add("default", {"teacher_weight": TEACHER_WEIGHT})
    if values["task_name"] is None or values["albert_config_file"] is None:
        raise InputError(
            f"--output_dir={given.output_dir}: holds no fine-tuned model; expected a folder that "
            "--do_train wrote"
        )
    if recipe:
        names = (*dataclasses.asdict(recipe), "num_train_epochs", "warmup_proportion")
        print(f"recipe of the paper: {values.describe(names)}")


def _add_first_run(values: Resolution[FineTuningOptions], stored: StoredRun) -> None:
    """Adds what was chosen or given when a run that resumes began."""
    names = values.with_alternatives(_CHOSEN)
    if "pooler" in values.given.frozen_parts:  # which is refused if the run trained other parts
        names.remove("new_pooler")
    saved = stored.options
    kept = {name: saved.get(name) for name in names}
    values.add("folder", kept, origins=saved.get(SOURCES, {}))


def add_embedder(
    values: Resolution[FineTuningOptions],
    stored: StoredRun | None,
    config: AlbertConfig,
    lower_case: bool,
) -> None:
    """Adds the pooling of the embedder that a training of another one starts from.

    A warning names what else it has that the training does not use.
    """
    path = values["init_checkpoint"]
    if stored or not path or not issubclass(find_kind(values.given.task.kind), Embedding):
        return
    model = StoredModel.at(path)
    try:
        kind = embedder_kind(model, config, lower_case)
        layers = names_of_layers(model)
    except InputError as error:
        warn(f"--init_checkpoint={path}: its encoder alone is used: {error}")
        return
    if kind is None:
        return
    values.add("model", {"pooling": kind.pooling}, {"pooling": "that of --init_checkpoint"})
    unused = [f"prompt '{name}'" for name, prompt in kind.prompts if prompt]
    unused += [f"module {name}" for name in layers]
    if unused:
        warn(f"--init_checkpoint={path}: the training does not use its {', '.join(unused)}")


def choose_length(
    kind: Kind,
    train: Sequence[Any],
    tokenizer: Tokenizer,
    most: int,
    seed: int,
    given: Collection[str] = (),
) -> int:
    """Returns the kind's length, or a greater one, at most `most`, that leaves nearly all texts whole.

    `given` are the names of the options of the kind that are given, as for `set_length`.
    """
    length = min(kind.max_seq_length, most)
    if kind.finds_spans:
        return length
    rng = np.random.default_rng(seed)
    measured = rng.choice(len(train), min(len(train), _MEASURED), replace=False)
    whole = set_length(kind, most, given).encode([train[row] for row in measured], tokenizer)
    needed = np.quantile(whole.example_lengths, _WHOLE, method="higher")
    return min(max(length, math.ceil(needed / _LENGTH_STEP) * _LENGTH_STEP), most)


def set_length(kind: Kind, max_seq_length: int, given: Collection[str] = ()) -> Kind:
    """Returns a kind with another length, which options that follow it get anew unless they are given."""
    anew: dict[str, Any] = dict.fromkeys({*kind.length_options}.difference(given))
    return dataclasses.replace(kind, max_seq_length=max_seq_length, **anew)


def add_chosen(
    values: Resolution[FineTuningOptions],
    config: AlbertConfig,
    kind: Kind,
    rows: int,
    stored: StoredRun | None,
) -> None:
    """Adds what a training chooses, and prints it with the reasons in one line.

    `rows` is the number of training examples.
    """
    _add_rate(values, config, kind, rows)
    needs_others = kind.least_micro_batch > 1  # the examples of a batch are compared
    is_small = rows < _MANY_ROWS and not needs_others
    values.add("rows", {"train_batch_size": _BATCH_OF_FEW if is_small else _BATCH_OF_MANY})
    examples = max(_PASSES * rows + _MORE * math.sqrt(rows), _LEAST_EXAMPLES)
    steps = math.ceil(examples / values["train_batch_size"])
    values.add("rows", {"num_train_steps": steps, "max_seq_length": kind.max_seq_length})
    values.add("default", DEFAULT_VALUES)
    if values["init_checkpoint"] and kind.reads_pooler:
        # A run that resumes no longer needs the model that it started from.
        is_wanted = not (values.given.recipe or stored) and rows < _ENOUGH_FOR_ANY_POOLER
        is_wanted &= "pooler" not in values.given.frozen_parts
        is_wanted = is_wanted and not StoredModel.at(values["init_checkpoint"]).is_fine_tuned
        values.add("rows", {"new_pooler": is_wanted})
    chosen = [name for name in _CHOSEN if values.is_chosen(name)]
    if not chosen:
        return
    notes = {}
    if values["num_train_steps"] is not None:
        passes = values["num_train_steps"] * values["train_batch_size"] / rows
        notes["num_train_steps"] = f"{passes:.3g} passes"
    when = " when the run began" if "folder" in map(values.source, chosen) else ""
    described = values.describe(chosen, notes)
    print(f"chosen for {rows} training examples{when}: {described}; a flag overrides each")


def halve_rate(values: Resolution[FineTuningOptions]) -> None:
    """Halves the rate, with which a training that has collapsed starts again; says so."""
    rate = values["learning_rate"]
    print(
        f"the training has collapsed at the chosen learning rate of {rate:g}: starting again at half of "
        "it; --learning_rate sets another"
    )
    values.replace("learning_rate", rate / 2)


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


def _folder_values(stored: StoredRun) -> dict[str, Any]:
    """Returns what the folder of the model determines that is used without training."""
    if not stored.model.own:
        return {}
    values = {
        **vocabulary_flags(stored.model.folder),
        "albert_config_file": stored.model.config_file,
        "dropout": stored.options.get("dropout"),
    }
    if stored.kind:
        values |= {
            "task_name": stored.kind.task_name,
            "max_seq_length": stored.kind.max_seq_length,
        }
    return values


def _add_rate(
    values: Resolution[FineTuningOptions], config: AlbertConfig, kind: Kind, rows: int
) -> None:
    """Adds the learning rate, and the optimizer that it is for."""
    rate = StoredModel.of_config(values["albert_config_file"]).recommended_rate
    reason, optimizer = "the model recommends", _RECOMMENDED_WITH
    if rate is None:
        rate = _width_rate(config, kind)
        reason, optimizer = f"suits a width of {config.hidden_size}", _WIDTH_WITH
    if rows < _FEW_ROWS:
        rate, reason = rate / 2, f"half of what {reason}"
    check_rate(values, optimizer)
    values.add("model", {"optimizer": optimizer})
    values.add("model", {"learning_rate": rate}, {"learning_rate": reason})


def _width_rate(config: AlbertConfig, kind: Kind) -> float:
    rate = kind.base_learning_rate * (_WIDTH_OF_BASE / config.hidden_size) ** 2
    return float(f"{min(max(rate, _LEAST_RATE), _MOST_RATE):.1g}")
