"""The options of `run_classifier.py`, and what those mean that the user leaves out.

An option that the user leaves out has the value of the recipe, where there is one; without training,
of the trained folder; else a default. So a trained folder is all that prediction needs.
"""

import dataclasses
import os
from typing import Any, Literal

import tensorflow as tf

from albert_tf import files
from albert_tf.data.race import LEVELS
from albert_tf.data.task import Task
from albert_tf.data.task_table import TASKS, find_task
from albert_tf.errors import FlagError, InputError
from albert_tf.options import option
from albert_tf.tasks.common import CONFIG_FILE, OPTIONS_FILE
from albert_tf.tasks.recipes import PAPER
from albert_tf.tasks.training_options import TrainingOptions, check_range
from albert_tf.training import best_checkpoint

SPM_MODEL_FILE, VOCAB_FILE = "vocabulary.model", "vocabulary.txt"

_SPLITS = ("train", "dev", "test")
_OWN_FILES = tuple(f"{split}_file" for split in _SPLITS)

_DEFAULTS = {
    "max_seq_length": 128,
    "max_qa_length": 128,
    "do_lower_case": True,
    "train_batch_size": 32,
    "learning_rate": 2e-5,
    "num_train_epochs": 3.0,
    "warmup_proportion": 0.1,
    "classifier_dropout": 0.1,
}
# What a trained folder knows.
_OF_FOLDER = (
    *("task_name", "max_seq_length", "max_qa_length", "do_lower_case", "dropout"),
    "classifier_dropout",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationOptions(TrainingOptions):
    """The options of `run_classifier.py`."""

    albert_config_file: str | None = option(
        "JSON file with the shape of the model: albert_config.json, or a Hugging Face config.json; "
        "without training that of --output_dir.",
        None,
    )
    task_name: str | None = option(
        f"The task: {', '.join(TASKS)}; without training that of --output_dir.", None
    )
    data_source: Literal["files", "tfds"] = option(
        "Files in the original layout, or TensorFlow Datasets.", "files"
    )
    data_dir: str | None = option(
        "Folder of GLUE's tasks, or of RACE, in the original layout; or that of TensorFlow Datasets.",
        None,
    )
    train_file: str | None = option("With --task_name=tsv, the file to train on.", None)
    dev_file: str | None = option("With --task_name=tsv, the file to evaluate on.", None)
    test_file: str | None = option("With --task_name=tsv, the file to predict.", None)
    label_type: Literal["string", "float"] = option(
        "With --task_name=tsv, whether labels are names of classes or scores.", "string"
    )
    race_level: Literal[("all", *LEVELS)] = option("With --task_name=race, which articles.", "all")
    max_qa_length: int | None = option(
        "Tokens of question and choice at most; 128 without this flag.", None
    )
    spm_model_file: str | None = option("SentencePiece model of the vocabulary.", None)
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    do_lower_case: bool | None = option(
        "Whether to lower-case the text; yes without this flag.", None
    )
    do_predict: bool = option("Whether to predict the test set with the best checkpoint.", False)
    predict_file: str | None = option(
        "File whose lines are predicted on standard output; - is standard input.", None
    )
    export_dir: str | None = option("Folder for the SavedModels of the best checkpoint.", None)
    init_classifier: str | None = option(
        "Folder that this script trained on another task: its model, vocabulary and best weights start "
        "the training, and the head starts anew. In the paper RTE, STS-B and MRPC start from MNLI's.",
        None,
    )
    reset_head: bool = option(
        "Whether the head starts anew, although --init_checkpoint has one.", False
    )
    recipe: Literal["paper"] | None = option(
        "Whose values the flags of training have that are not given.", None
    )
    max_seq_length: int | None = option(
        "Tokens of an example at most, the special ones included; 128 without this flag.", None
    )
    train_batch_size: int | None = option(
        "Examples of an update, over all replicas; 32 without this flag.", None
    )
    optimizer: Literal["lamb", "adamw"] = option("The optimizer.", "adamw")
    learning_rate: float | None = option(
        "The peak of the learning rate; 2e-5 without this flag.", None
    )
    num_train_epochs: float | None = option(
        "Passes over the training set; 3 without this flag and --num_train_steps.", None
    )
    num_train_steps: int | None = option("Updates in all, instead of --num_train_epochs.", None)
    warmup_steps: int | None = option("Updates until the learning rate is at its peak.", None)
    warmup_proportion: float | None = option(
        "The part of all updates that is warm-up, instead of --warmup_steps; 0.1 without both.",
        None,
    )
    classifier_dropout: float | None = option(
        "Dropout on the pooled output; 0.1 without this flag.", None
    )
    early_stopping_evaluations: int | None = option(
        "After how many evaluations without a better one training ends; never without this flag.",
        None,
    )
    num_trials: int = option(
        "Trainings with the seeds --random_seed and the next ones, each in a folder of its own.", 1
    )

    def __post_init__(self):
        super().__post_init__()
        for name in (
            "num_train_steps",
            "max_qa_length",
            "early_stopping_evaluations",
            "num_trials",
        ):
            check_range(self, name, 1)
        check_range(self, "num_train_epochs", 0)
        for name in ("classifier_dropout", "warmup_proportion"):
            check_range(self, name, 0, 1)
        self._check_combinations()
        if self.task_name is not None:
            self._check_sources()

    @property
    def task(self) -> Task:
        """The row of the task."""
        return find_task(self.task_name)

    @property
    def splits(self) -> list[str]:
        """The splits that the flags ask for; with a dev set, training picks its best checkpoint."""
        wanted = {
            "train": self.do_train,
            "dev": self.do_eval or (self.do_train and self._is_given("dev")),
            "test": self.do_predict,
        }
        return [split for split, is_wanted in wanted.items() if is_wanted]

    def _is_given(self, split: str) -> bool:
        if self.task.sets:
            return split in self.task.sets
        return bool(getattr(self, f"{split}_file"))

    def _check_combinations(self) -> None:
        wanted = (self.do_train, self.do_eval, self.do_predict, self.predict_file, self.export_dir)
        if not any(wanted):
            raise FlagError(
                "expected at least one of --do_train, --do_eval, --do_predict, --predict_file, "
                "--export_dir; received none"
            )
        if self.init_checkpoint and not self.do_train:
            raise FlagError(
                "--init_checkpoint: expected --do_train, which starts from it; without it the best "
                "checkpoint of --output_dir is used"
            )
        if self.init_classifier and (self.init_checkpoint or not self.do_train):
            raise FlagError("--init_classifier: expected --do_train, and no --init_checkpoint")
        if self.do_train and not self.task_name:
            raise FlagError("--do_train: expected --task_name; received none")
        if self.do_train and not (self.albert_config_file or self.init_classifier):
            raise FlagError("--do_train: expected --albert_config_file; received none")
        for names in (
            ("warmup_steps", "warmup_proportion"),
            ("num_train_steps", "num_train_epochs"),
        ):
            if all(getattr(self, name) is not None for name in names):
                raise FlagError(f"received --{names[0]} and --{names[1]}; expected one of them")
        if self.num_trials > 1 and not (self.do_train and self.do_eval):
            raise FlagError(f"--num_trials={self.num_trials}: expected --do_train and --do_eval")
        if self.num_trials > 1 and (self.export_dir or self.predict_file):
            raise FlagError(
                f"--num_trials={self.num_trials}: expected neither --export_dir nor --predict_file; "
                "give them with a trial's folder as --output_dir"
            )
        if self.recipe and self.task_name and self.task.name not in PAPER:
            raise FlagError(
                f"--recipe=paper: has no row for --task_name={self.task_name}, but for "
                f"{', '.join(PAPER)}"
            )

    def _check_sources(self) -> None:
        sets = self.task.sets
        for split in self.splits:
            if sets and split not in sets:
                raise FlagError(
                    f"--task_name={self.task_name}: has no {split} set, but for {', '.join(sets)}; "
                    f"the model is that of --task_name={self.task.model_task}"
                )
            flag = "data_dir" if sets else f"{split}_file"
            if self.data_source == "files" and not getattr(self, flag):
                raise FlagError(f"--task_name={self.task_name}: expected --{flag}; received none")
        if self.data_source == "tfds" and not self.task.tfds:
            raise FlagError(f"--data_source=tfds: --task_name={self.task_name} is not there")
        read = ("data_dir",) if sets else _OWN_FILES
        for flag in ("data_dir", *_OWN_FILES):
            if flag not in read and getattr(self, flag):
                raise FlagError(
                    f"--{flag}: --task_name={self.task_name} reads no such thing; "
                    f"it reads --{', --'.join(sorted(read))}"
                )


def complete(options: ClassificationOptions) -> ClassificationOptions:
    """Returns the options with the values of those that the user left out.

    Raises:
        FlagError: without training, `--output_dir` does not know the task either.
    """
    if options.init_classifier:
        options = _start_from_classifier(options)
    values = {}
    if options.recipe and options.do_train:
        values = _of_recipe(options)
    elif not options.do_train:
        values = _of_folder(options.output_dir)
    values = _DEFAULTS | {name: value for name, value in values.items() if value is not None}
    # Of two options that exclude each other the one that is not given has no default.
    for one, other in (
        ("num_train_steps", "num_train_epochs"),
        ("warmup_steps", "warmup_proportion"),
        ("spm_model_file", "vocab_file"),
    ):
        if any(getattr(options, name) is not None for name in (one, other)):
            values = {name: value for name, value in values.items() if name not in (one, other)}
        elif values.get(one) is not None:
            values.pop(other, None)
    missing = {name: value for name, value in values.items() if getattr(options, name) is None}
    completed = dataclasses.replace(options, **missing)
    if completed.task_name is None or completed.albert_config_file is None:
        raise FlagError(
            f"--output_dir={options.output_dir}: holds no classifier; expected a folder that "
            "--do_train wrote"
        )
    if options.recipe and options.do_train:
        print(f"recipe of the paper: {_describe(completed)}")
    return completed


def _start_from_classifier(options: ClassificationOptions) -> ClassificationOptions:
    """Returns the options with those of `--init_classifier`'s folder that its weights go with."""
    folder = options.init_classifier
    of_folder = _of_folder(folder)
    if not of_folder:
        raise InputError(
            f"--init_classifier={folder}: holds no classifier; expected a folder that --do_train wrote"
        )
    names = ("albert_config_file", "spm_model_file", "vocab_file", "do_lower_case")
    return dataclasses.replace(
        options,
        init_classifier=None,
        init_checkpoint=best_checkpoint(folder),
        reset_head=True,
        **{name: of_folder[name] for name in names if getattr(options, name) is None},
    )


def _of_recipe(options: ClassificationOptions) -> dict[str, Any]:
    recipe = PAPER[options.task.name]
    values = dataclasses.asdict(recipe)
    if options.num_train_steps is not None or options.num_train_epochs is not None:
        # Of another length the recipe's warm-up is a part.
        values["warmup_steps"] = None
        values["warmup_proportion"] = recipe.warmup_steps / recipe.num_train_steps
    return values


def _describe(options: ClassificationOptions) -> str:
    names = (*dataclasses.asdict(PAPER[options.task.name]), "num_train_epochs", "warmup_proportion")
    given = {name: getattr(options, name) for name in names}
    return ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)


def _of_folder(output_dir: str) -> dict[str, Any]:
    """Returns what a trained folder says of the options; nothing where it is none."""
    path = os.path.join(output_dir, OPTIONS_FILE)
    if not tf.io.gfile.exists(path):
        return {}
    saved = files.read_json(path)
    values = {name: saved.get(name) for name in _OF_FOLDER}
    there = {
        "albert_config_file": CONFIG_FILE,
        "spm_model_file": SPM_MODEL_FILE,
        "vocab_file": VOCAB_FILE,
    }
    for name, file in there.items():
        path = os.path.join(output_dir, file)
        values[name] = path if tf.io.gfile.exists(path) else None
    return values
