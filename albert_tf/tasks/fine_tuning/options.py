"""The options of every fine-tuning task, and the values of those that the user leaves out.

An option that is not given has the recipe's value, if there is one. Without training it has the value of
the trained folder, so that prediction needs nothing else. Otherwise it has a default, or `choices.py`
chooses it when the data are read.

`--help` reads the options, so slow modules are imported where they are used.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from albert_tf.data.fine_tuning.task_table import Task
from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.options.parts import Weights
from albert_tf.tasks.flags import load_tokenizer
from albert_tf.tasks.training_options import MAX_BATCH_SIZE, ExportOptions, Recipe, TrainingOptions
from albert_tf.tokenization import Tokenizer

_DEFAULTS = {"do_lower_case": True, "classifier_dropout": 0.1}

# If one of a pair is given, the other has no default.
LENGTHS = (("num_train_steps", "num_train_epochs"), ("warmup_steps", "warmup_proportion"))
_VOCABULARIES = ("spm_model_file", "vocab_file")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(ExportOptions, TrainingOptions):
    """The options of every fine-tuning task. A task adds its own."""

    # Option of a kind -> names of the kinds that have it.
    OF_KINDS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    holds_out: ClassVar = False  # whether a part of the training file is the dev set
    lines_file: ClassVar[str | None] = None  # whose lines are answered on standard output
    task: ClassVar[Task]
    splits: ClassVar[Sequence[str]]
    # Options that ask for something; at least one has to be given.
    WANTED: ClassVar[tuple[str, ...]] = ("do_train", "do_eval", "do_predict", "export_dir")
    # Name of the files of predictions, without their ends.
    DEV_PREDICTIONS: ClassVar = "eval_predictions"
    TEST_PREDICTIONS: ClassVar = "test_results"

    albert_config_file: str | None = option(
        "JSON file with the model's configuration: albert_config.json, or a Hugging Face config.json. "
        "Default: that of --init_checkpoint or, without --do_train, of the trained model.",
        None,
    )
    spm_model_file: str | None = option(
        "SentencePiece model of the vocabulary. Default: as for --albert_config_file.", None
    )
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    do_lower_case: bool | None = option(
        "Lower-case the text. Default: as the model's folder says, otherwise true.", None
    )
    data_source: Literal["files", "tfds"] = option(
        "Read files in the original format, or TensorFlow Datasets.", "files"
    )
    max_seq_length: int | None = option(
        "Maximum number of tokens per sequence, including the special ones. Default: chosen by the data, "
        "at least 128, or 384 for question answering, and at most the model's.",
        None,
        least=5,
    )
    train_batch_size: int | None = option(
        "Number of examples per update, over all replicas. Default: chosen by the data.",
        None,
        least=1,
        most=MAX_BATCH_SIZE,
    )
    optimizer: Literal["lamb", "adamw"] = option("Optimizer.", "adamw")
    learning_rate: float | None = option(
        "Peak learning rate. Default: chosen by the model.", None, least=0
    )
    num_train_epochs: float | None = option(
        "Number of passes over the training set, instead of --num_train_steps.", None, least=0
    )
    num_train_steps: int | None = option(
        "Total number of updates. Default: chosen by the data.", None, least=1
    )
    warmup_steps: int | None = option(
        "Number of updates until the peak learning rate.", None, least=0
    )
    warmup_proportion: float | None = option(
        "Fraction of all updates until the peak learning rate, instead of --warmup_steps. Default: 0.1.",
        None,
        least=0,
        most=1,
    )
    save_checkpoints_steps: int | None = option(
        "Number of updates between two evaluations and checkpoints. Default: a tenth of the training.",
        None,
        least=1,
    )
    early_stopping_evaluations: int | None = option(
        "End training after this many evaluations without a new best one. Default: never.",
        None,
        least=1,
    )
    classifier_dropout: float | None = option(
        "Dropout rate before the head. Default: 0.1.", None, least=0, most=1
    )
    recipe: Literal["paper"] | None = option(
        "Use the paper's hyperparameters for every training flag not given explicitly.", None
    )
    new_pooler: bool | None = option(
        "Start with a new pooler instead of that of --init_checkpoint. Default: chosen by the data.",
        None,
    )
    reset_head: bool = option(
        "Initialise the head randomly, even if --init_checkpoint has one.", False
    )
    export_dir: str | None = option("Folder to export the best checkpoint to.", None)
    export_weights: Weights | None = option(
        "Data type of the exported matrices: int8, or float16 (LiteRT, ONNX). Default: that of the "
        "model's computations. With int8, evaluation uses the rounded weights too; files for OpenVINO "
        "and ONNX Runtime are evaluated themselves.",
        None,
    )

    def file_flag(self, split: str) -> str:
        """Returns the name of the option that names the file of a split."""
        return f"{split}_file"

    def complete(self, train: Any = None) -> Self:
        """Returns the options with the values of those left out; `train` is a training set in memory."""
        raise NotImplementedError

    def check_kinds(self, kinds: Iterable[str]) -> None:
        """Checks that no option is given that only other kinds than `kinds` have."""
        for name, having in self.OF_KINDS.items():
            if getattr(self, name) is not None and not {*kinds} & {*having}:
                raise InputError(
                    f"--{name}={getattr(self, name)}: {' or '.join(kinds)} has no such option; it is "
                    f"one of {' and '.join(having)}"
                )

    def load_tokenizer(self) -> Tokenizer:
        """Loads the vocabulary, of either kind."""
        return load_tokenizer(self.spm_model_file, self.vocab_file, self.do_lower_case)

    def check_combinations(self, has_dev_set: bool) -> None:
        """Checks the options that depend on each other."""
        if not any(getattr(self, name) for name in self.WANTED):
            flags = ", ".join(f"--{name}" for name in self.WANTED)
            raise InputError(f"expected at least one of {flags}; received none")
        if self.do_train and not (self.albert_config_file or self.init_checkpoint):
            raise InputError("expected --albert_config_file or --init_checkpoint; received neither")
        if self.init_checkpoint and not self.do_train:
            raise InputError(
                "--init_checkpoint: expected --do_train; without it the best checkpoint of --output_dir "
                "is used"
            )
        if self.reset_head and not self.init_checkpoint:
            raise InputError("--reset_head: expected --init_checkpoint, whose head it ignores")
        for names in LENGTHS:
            if all(getattr(self, name) is not None for name in names):
                raise InputError(f"received --{names[0]} and --{names[1]}; expected one of them")
        if self.early_stopping_evaluations and self.do_train and not has_dev_set:
            raise InputError(
                f"--early_stopping_evaluations={self.early_stopping_evaluations}: expected "
                f"--{self.file_flag('dev')}; received none"
            )
        self.check_export(has_examples=self.do_train or self.do_eval)

    def fill(self, recipe: Recipe | None) -> Self:
        """Returns the options with the values of those that the user left out.

        They come from the recipe, if one is asked for. What depends on the data remains None.
        """
        values = {**_DEFAULTS, **self._stored_values(recipe)}
        for one, other in (*LENGTHS, _VOCABULARIES):
            if any(getattr(self, name) is not None for name in (one, other)):
                values = {name: value for name, value in values.items() if name not in (one, other)}
            elif values.get(one) is not None:
                values.pop(other, None)
        missing = {
            name: value
            for name, value in values.items()
            if hasattr(self, name) and getattr(self, name) is None
        }
        filled = dataclasses.replace(self, **missing)
        if recipe:
            print(f"recipe of the paper: {filled._describe(recipe)}")
        return filled

    def _stored_values(self, recipe: Recipe | None) -> dict[str, Any]:
        """Returns the values of the recipe, or those of the model that is used without training."""
        from albert_tf.model_folder import find_best
        from albert_tf.tasks.trained_folder import read_trained

        if recipe:
            values = dataclasses.asdict(recipe)
            if self.num_train_steps is not None or self.num_train_epochs is not None:
                # In a training of another length the warm-up is the same fraction.
                values["warmup_steps"] = None
                values["warmup_proportion"] = recipe.warmup_steps / recipe.num_train_steps
        else:
            best = None if self.do_train else find_best(self.output_dir)
            values = read_trained(best) if best else {}
        return {name: value for name, value in values.items() if value is not None}

    def _describe(self, recipe: Recipe) -> str:
        names = (*dataclasses.asdict(recipe), "num_train_epochs", "warmup_proportion")
        given = {name: getattr(self, name) for name in names}
        return ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
