"""What the options of all fine-tuning tasks have in common, and what those mean that the user leaves out.

An option that the user leaves out has the value of the recipe, where there is one; without training,
of the trained folder; else a default. So a trained folder is all that prediction needs.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeVar

from albert_tf.errors import FlagError
from albert_tf.export import assets
from albert_tf.export.writing import Form, Weights
from albert_tf.options import option
from albert_tf.tasks.common import name_remedy
from albert_tf.tasks.recipes import Recipe
from albert_tf.tasks.trained_folder import read_folder
from albert_tf.tasks.training_options import MAX_BATCH_SIZE, TrainingOptions

_DEFAULTS = {
    "do_lower_case": True,
    "train_batch_size": 32,
    "num_train_epochs": 3.0,
    "warmup_proportion": 0.1,
    "classifier_dropout": 0.1,
}

# Of two options that exclude each other the one that is not given has no default.
_EXCLUDE = (
    ("num_train_steps", "num_train_epochs"),
    ("warmup_steps", "warmup_proportion"),
    ("spm_model_file", "vocab_file"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TrainingOptions):
    """The options of every fine-tuning task; a task adds its own.

    Attributes:
        OF_MODEL: names of the options that a trained folder and an exported model know; config and
            vocabulary are files there.
        OF_WEIGHTS: those without which the weights of a folder mean nothing.
        OF_TRAINING: those that all of a training keeps; evaluation and export may have others.
    """

    OF_MODEL: ClassVar[tuple[str, ...]] = (
        *("max_seq_length", "do_lower_case", "dropout", "classifier_dropout"),
    )
    OF_WEIGHTS: ClassVar[tuple[str, ...]] = ("do_lower_case",)
    OF_TRAINING: ClassVar[tuple[str, ...]] = ("max_seq_length",)

    albert_config_file: str | None = option(
        "JSON file with the shape of the model: albert_config.json, or a Hugging Face config.json; "
        "without training that of --output_dir.",
        None,
    )
    spm_model_file: str | None = option("SentencePiece model of the vocabulary.", None)
    do_lower_case: bool | None = option(
        "Whether to lower-case the text; yes without this flag.", None
    )
    export_dir: str | None = option("Folder for the SavedModels of the best checkpoint.", None)
    export_format: Form = option("SavedModels, or a file for LiteRT on phones.", "saved_model")
    export_weights: Weights | None = option(
        "What the exported matrices are stored in: int8, or for LiteRT float16; without this flag "
        "what the model computes in. With int8 the rounded model is what is evaluated and exported.",
        None,
    )
    exported_model: str | None = option(
        "Folder of a version that --export_dir wrote, which evaluates and predicts instead of the best "
        "checkpoint of --output_dir.",
        None,
    )
    reset_head: bool = option(
        "Whether the head starts anew, although --init_checkpoint has one.", False
    )
    recipe: Literal["paper"] | None = option(
        "Whose values the flags of training have that are not given.", None
    )
    train_batch_size: int | None = option(
        "Number of examples per update, over all replicas. Default: 32.",
        None,
        least=1,
        most=MAX_BATCH_SIZE,
    )
    optimizer: Literal["lamb", "adamw"] = option("The optimizer.", "adamw")
    num_train_epochs: float | None = option(
        "Passes over the training set; 3 without this flag and --num_train_steps.", None, least=0
    )
    num_train_steps: int | None = option(
        "Updates in all, instead of --num_train_epochs.", None, least=1
    )
    save_checkpoints_steps: int | None = option(
        "Updates between evaluations and checkpoints; a tenth of the training without this flag.",
        None,
        least=1,
    )
    warmup_steps: int | None = option(
        "Number of updates until the peak learning rate.", None, least=0
    )
    warmup_proportion: float | None = option(
        "The part of all updates that is warm-up, instead of --warmup_steps; 0.1 without both.",
        None,
        least=0,
        most=1,
    )
    classifier_dropout: float | None = option(
        "Dropout before the head; 0.1 without this flag.", None, least=0, most=1
    )
    early_stopping_evaluations: int | None = option(
        "After how many evaluations without a better one training ends; never without this flag.",
        None,
        least=1,
    )
    num_trials: int = option(
        "Trainings with the seeds --random_seed and the next ones, each in a folder of its own.",
        1,
        least=1,
    )
    exclude_collapsed: bool = option(
        "Leave trainings that collapsed to one answer out of the summary of --num_trials.", False
    )

    @property
    def model_dir(self) -> str:
        """The folder with what is known of the model: the trained one, or an exported one's assets."""
        return assets.folder(self.exported_model) if self.exported_model else self.output_dir

    @property
    def model_flag(self) -> str:
        """The flag that names the model, and its value, for messages."""
        name = "exported_model" if self.exported_model else "output_dir"
        return f"--{name}={getattr(self, name)}"

    def check_combinations(self, wanted: Iterable[str], for_training: Iterable[str]) -> None:
        """Checks what the flags say together.

        Args:
            wanted: names of the options that ask for something; one at least has to be given.
            for_training: names of the options that `--do_train` needs.

        Raises:
            FlagError: they contradict each other, or one is missing.
        """
        if not any(getattr(self, name) for name in wanted):
            raise FlagError(
                f"expected at least one of {', '.join(f'--{name}' for name in wanted)}; received none"
            )
        if self.init_checkpoint and not self.do_train:
            raise FlagError(
                "--init_checkpoint: expected --do_train, which starts from it; without it the best "
                "checkpoint of --output_dir is used"
            )
        if self.reset_head and not self.init_checkpoint:
            raise FlagError("--reset_head: expected --init_checkpoint, whose head it leaves out")
        self._check_export()
        for name in ("do_train", "export_dir"):
            if self.exported_model and getattr(self, name):
                raise FlagError(
                    f"--exported_model: expected no --{name}; it evaluates and predicts"
                )
        for name in for_training:
            if self.do_train and not getattr(self, name):
                raise FlagError(f"--do_train: expected --{name}; received none")
        for names in _EXCLUDE[:2]:
            if all(getattr(self, name) is not None for name in names):
                raise FlagError(f"received --{names[0]} and --{names[1]}; expected one of them")
        if self.num_trials > 1 and not (self.do_train and self.do_eval):
            raise FlagError(f"--num_trials={self.num_trials}: expected --do_train and --do_eval")
        if self.exclude_collapsed and self.num_trials == 1:
            raise FlagError("--exclude_collapsed: expected --num_trials of at least 2; received 1")

    def check_early_stopping(self, dev_flag: str, has_dev_set: bool) -> None:
        """Checks that there is something to stop on.

        Args:
            dev_flag: the option that names the dev set.
            has_dev_set: whether there is one.

        Raises:
            FlagError: early stopping is asked for, and there is none.
        """
        if self.early_stopping_evaluations and self.do_train and not has_dev_set:
            raise FlagError(
                f"--early_stopping_evaluations={self.early_stopping_evaluations}: expected "
                f"--{dev_flag}; received none"
            )

    def _check_export(self) -> None:
        for name, default in (("export_format", "saved_model"), ("export_weights", None)):
            value = getattr(self, name)
            if value != default and not self.export_dir:
                raise FlagError(f"--{name}={value}: expected --export_dir")
        if self.export_weights == "float16" and self.export_format != "tflite":
            raise FlagError("--export_weights=float16: expected --export_format=tflite")


_Options = TypeVar("_Options", bound=FineTuningOptions)


def fill(options: _Options, recipe: Recipe | None, defaults: Mapping[str, Any]) -> _Options:
    """Returns the options with the values of those that the user left out.

    Args:
        options: of a task.
        recipe: of the training; None where none is asked for.
        defaults: the task's own.
    """
    values: dict[str, Any] = {}
    if recipe:
        values = _of_recipe(options, recipe)
    elif options.exported_model:
        values = read_folder(options.model_dir, options.OF_MODEL)
    elif not options.do_train:
        with name_remedy():
            values = read_folder(options.output_dir, options.OF_MODEL)
    given = {name: value for name, value in values.items() if value is not None}
    values = {**_DEFAULTS, **defaults, **given}
    for one, other in _EXCLUDE:
        if any(getattr(options, name, None) is not None for name in (one, other)):
            values = {name: value for name, value in values.items() if name not in (one, other)}
        elif values.get(one) is not None:
            values.pop(other, None)
    missing = {
        name: value
        for name, value in values.items()
        if hasattr(options, name) and getattr(options, name) is None
    }
    filled = dataclasses.replace(options, **missing)
    if recipe:
        print(f"recipe of the paper: {_describe(filled, recipe)}")
    return filled


def _of_recipe(options: FineTuningOptions, recipe: Recipe) -> dict[str, Any]:
    values = dataclasses.asdict(recipe)
    if options.num_train_steps is not None or options.num_train_epochs is not None:
        # Of another length the recipe's warm-up is a part.
        values["warmup_steps"] = None
        values["warmup_proportion"] = recipe.warmup_steps / recipe.num_train_steps
    return values


def _describe(options: FineTuningOptions, recipe: Recipe) -> str:
    names = (*dataclasses.asdict(recipe), "num_train_epochs", "warmup_proportion")
    given = {name: getattr(options, name) for name in names}
    return ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
