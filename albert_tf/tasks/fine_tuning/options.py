"""The options of fine-tuning, and the checks of their combinations.

`choices.py` has the values of options that are not given. `--help` reads this module, so slow modules are
imported where they are used.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.tables import table_format_names
from albert_tf.data.fine_tuning.task_table import (
    OWN_TASK,
    RACE_TASK,
    TASKS,
    Task,
    find_task,
    select_level,
)
from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.options.kinds import (
    KIND_FLAGS,
    KIND_OPTIONS,
    KindOptions,
    kinds_with,
    option_fields,
    read_kind_options,
)
from albert_tf.options.models import VocabularyOptions
from albert_tf.options.resolution import resolved
from albert_tf.tasks.fine_tuning.teacher_options import TeacherOptions
from albert_tf.tasks.training_options import PAPER, ExportOptions, TrainingOptions

_WISHES = ("do_train", "do_eval", "do_predict", "export_dir")
# Parts of an encoder that `--trainable` names.
_ENCODER_PARTS = ("embedding", "blocks", "pooler")
_OWN_FILES = ("train_file", "dev_file", "test_file")
# The tasks with original files, and those in TensorFlow Datasets.
_WITH_FILES = [task.name for task in TASKS.values() if task.sets]
_WITH_TFDS = dict.fromkeys(task.name for task in TASKS.values() if task.tfds)

# What `choices.py` adds last, where no other source says it.
DEFAULT_VALUES = {"do_lower_case": True, "classifier_dropout": 0.1, "warmup_proportion": 0.1}

# The options that choose a checkpoint by a dev set.
CHECKPOINT_CHOICES = ("early_stopping_evaluations", "best_metric")

_LENGTHS = (("num_train_steps", "num_train_epochs"), ("warmup_steps", "warmup_proportion"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TeacherOptions, KindOptions, ColumnNames, ExportOptions, TrainingOptions):
    """The options of fine-tuning."""

    DEFAULTS: ClassVar = {
        "albert_config_file": "that of --init_checkpoint or, without --do_train, of the trained model",
        "spm_model_file": "as for --albert_config_file",
        "do_lower_case": "as the model's folder says, otherwise true",
        "max_seq_length": "chosen by the data, between 128 (question answering: 384) and the model's",
        "train_batch_size": "chosen by the data",
        "num_train_steps": "chosen by the data",
        "learning_rate": "chosen by the model",
        "optimizer": "chosen by the model",
        "warmup_proportion": DEFAULT_VALUES["warmup_proportion"],
        "classifier_dropout": DEFAULT_VALUES["classifier_dropout"],
    }
    ALTERNATIVES: ClassVar = (*_LENGTHS, *VocabularyOptions.ALTERNATIVES)
    # Split -> the flag that names its file.
    FILE_FLAGS: ClassVar[Mapping[str, str]] = {
        split: f"{split}_file" for split in ("train", "dev", "test")
    }
    # Name of the files of predictions for a test set, without their ends.
    TEST_PREDICTIONS: ClassVar[str] = "test_results"

    task_name: str | None = option(
        f"Task: {', '.join(dict.fromkeys((*TASKS, *KIND_FLAGS)))}. Without --do_train it defaults to the "
        "model's task, and for a --train_file to classification.",
        None,
    )
    data_dir: str | None = option(
        f"Folder above the files of a --task_name with files of its own ({', '.join(_WITH_FILES)}), or "
        "that of TensorFlow Datasets.",
        None,
    )
    data_source: Literal["files", "tfds"] = option(
        "Read files in the original format, or TensorFlow Datasets.", "files"
    )
    train_file: str | None = option(
        "File to train on, for a --task_name without files of its own: a table with names of columns "
        f"({table_format_names()}), a folder of datasets, CoNLL, or SQuAD's JSON.",
        None,
    )
    dev_file: str | None = option(
        "File to evaluate on. Default: a part of --train_file, see --dev_fraction; for questions, "
        "and for pairs without scores, none.",
        None,
    )
    test_file: str | None = option("File to predict.", None)
    dev_fraction: float = option(
        "Fraction of --train_file to hold out as the dev set if there is no --dev_file, drawn with "
        "--random_seed.",
        0.1,
        least=0,
        most=0.9,
    )
    race_level: Literal["all", "middle", "high"] = option(
        "Articles to use (--task_name=race).", "all"
    )
    best_metric: str | None = option(
        "Metric that selects the best checkpoint, such as macro_f1, roc_auc or loss. Default: the task's "
        "first one.",
        None,
    )
    do_predict: bool = option("Predict the test set with the best checkpoint.", False)
    predict_file: str | None = option(
        "File to answer on standard output: a table or .conll file as for --test_file, or lines of text "
        "with tabs between texts; - is standard input, lines of text.",
        None,
    )
    predict_format: Literal["tsv", "jsonl"] = option(
        "Answer --predict_file with a header row and tabs between columns, or with JSON lines.",
        "tsv",
    )

    num_train_epochs: float | None = option(
        "Number of passes over the training set, instead of --num_train_steps.", None, least=0
    )
    warmup_proportion: float | None = option(
        "Fraction of all updates until the peak learning rate, instead of --warmup_steps.",
        None,
        least=0,
        most=1,
    )
    save_checkpoints_steps: int | None = option(  # type: ignore[assignment]  # None is a tenth
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
        "Dropout rate before the head.", None, least=0, most=1
    )
    recipe: Literal["paper"] | None = option(
        "Use the paper's hyperparameters for every training flag not given explicitly.", None
    )
    trainable: str = option(
        f"Parts of the encoder to train with the head: all, none (head), or {', '.join(_ENCODER_PARTS)}.",
        "all",
    )
    new_pooler: bool | None = option(
        "Start with a new pooler instead of that of --init_checkpoint. Default: chosen by the data.",
        None,
    )
    reset_head: bool = option(
        "Initialise the head randomly, even if --init_checkpoint has one.", False
    )

    @classmethod
    def from_flags(cls, **flags: Any) -> Self:
        """Returns the options that the flags of a command line mean.

        A training file that nothing is said of asks for everything: to train, evaluate and export.
        """
        has_texts = flags.get("train_file") or flags.get("unlabeled_file")
        is_alone = has_texts and not ask_for_something(flags)
        if is_alone:
            flags["do_train"] = True
            flags["export_dir"] = os.path.join(flags["output_dir"], "exported")
        if has_texts and flags.get("do_train"):
            flags["task_name"] = flags.get("task_name") or cls.task_name or OWN_TASK.name
        options = cls(**flags)
        return options.with_evaluation() if is_alone else options

    def __post_init__(self):
        super().__post_init__()
        if self.do_train and not self.task_name:
            raise InputError("--do_train: expected --task_name; received none")
        self._check_combinations()
        if self.task_name is not None:
            self._check_task()

    def with_evaluation(self) -> Self:
        """Returns the options of a run that evaluates, too, if it has a dev set.

        Where its rows decide that, `do_eval` is None until they are read.
        """
        from albert_tf.kinds.registry import find_kind

        evaluates: bool | None = bool(self.dev_file)
        if self.holds_out:
            evaluates = None if self.teacher else find_kind(self.task.kind).can_hold_out
        return dataclasses.replace(self, do_eval=evaluates)

    @property
    def task(self) -> Task:
        """The task."""
        from albert_tf.kinds.registry import KINDS, load_kinds

        if self.task_name not in TASKS:
            kinds = KINDS if self.task_name in KINDS else load_kinds()
            if self.task_name in kinds:
                return Task(name=self.task_name, kind=self.task_name)
        task = find_task(resolved(self.task_name), KINDS)
        return select_level(task, self.race_level) if task.name == RACE_TASK.name else task

    @property
    def splits(self) -> list[str]:
        """The splits to read. Training chooses its best checkpoint on the dev set, if there is one."""
        has_own = self.dev_file is not None or self.data_source == "tfds"
        has_dev_set = "dev" in self.task.sets if self.task.sets else has_own
        wanted = {
            "train": self.do_train and not self._has_unlabeled_file_alone,
            "dev": not self.holds_out and (self.do_eval or (self.do_train and has_dev_set)),
            "test": self.do_predict,
        }
        return [split for split, is_wanted in wanted.items() if is_wanted]

    @property
    def holds_out(self) -> bool:
        """Whether a part of the training file becomes the dev set, if its rows can be evaluated."""
        from albert_tf.kinds.registry import find_kind

        wanted = self.do_train and self.dev_fraction > 0 and not self.dev_file
        is_own = wanted and not (self._has_unlabeled_file_alone or self.task.sets)
        return is_own and find_kind(self.task.kind).can_hold_out is not False

    @property
    def asks_to_hold_out(self) -> bool:
        """Whether `dev_fraction` is given and asks for a dev set."""
        return self.dev_fraction not in (0, FineTuningOptions.dev_fraction)

    @property
    def _has_unlabeled_file_alone(self) -> bool:
        """Whether the training set is that file."""
        if self.unlabeled_file is None:
            return False
        return not (self.train_file or self.task.sets or self.data_source == "tfds")

    @property
    def frozen_parts(self) -> list[str]:
        """The parts of the encoder that are not trained."""
        named = self.trainable.split(",")
        return [part for part in _ENCODER_PARTS if not {part, "all"} & {*named}]

    def given_to(self, kind: type) -> dict[str, Any]:
        """Returns the options of a kind that are given, by name."""
        values = {name: getattr(self, name, None) for name in option_fields(kind)}
        given = {name: value for name, value in values.items() if value is not None}
        return given | read_kind_options(self.kind_options, kind)

    def check_kinds(self, kinds: Sequence[str]) -> None:
        """Checks that no option is given that only other kinds than `kinds` have."""
        from albert_tf.kinds.registry import find_kind

        having = {name for kind in kinds for name in option_fields(find_kind(kind))}
        for name in KIND_OPTIONS:
            if getattr(self, name) is not None and name not in having:
                raise InputError(
                    f"--{name}={getattr(self, name)}: {' or '.join(kinds)} has no such option; it is "
                    f"one of {' and '.join(kinds_with(name))}"
                )

    def _check_combinations(self) -> None:
        """Checks the options that depend on each other."""
        if not (ask_for_something(vars(self)) or self.predict_file):
            flags = ", ".join(f"--{name}" for name in (*_WISHES, "predict_file"))
            raise InputError(f"expected at least one of {flags}; received none")
        if self.do_train and not (self.albert_config_file or self.init_checkpoint):
            raise InputError("expected --albert_config_file or --init_checkpoint; received neither")
        if self.init_checkpoint and not self.do_train:
            raise InputError(
                "--init_checkpoint: expected --do_train; without it the best checkpoint of --output_dir "
                "is used"
            )
        parts = ("all", "head", *_ENCODER_PARTS)
        for part in self.trainable.split(","):
            if part not in parts:
                raise InputError(
                    f"--trainable={self.trainable}: received '{part}'; expected {', '.join(parts)}"
                )
        if self.new_pooler and "pooler" in self.frozen_parts:
            raise InputError(
                f"--new_pooler: expected --trainable with pooler; received {self.trainable}"
            )
        if self.reset_head and not self.init_checkpoint:
            raise InputError("--reset_head: expected --init_checkpoint, whose head it ignores")
        for names in _LENGTHS:
            if all(getattr(self, name) is not None for name in names):
                raise InputError(f"received --{names[0]} and --{names[1]}; expected one of them")
        is_blind = self.do_train and not (self.holds_out or "dev" in self.splits)
        for name in CHECKPOINT_CHOICES if is_blind else ():
            if value := getattr(self, name):
                raise InputError(
                    f"--{name}={value}: expected --{self.FILE_FLAGS['dev']}; received none"
                )
        if self.do_train and self.asks_to_hold_out and not self.holds_out:
            raise InputError(
                f"--dev_fraction={self.dev_fraction:g}: this run holds out no rows; expected no such "
                f"option, or a --train_file with labels and no --{self.FILE_FLAGS['dev']}"
            )
        self.check_teacher(self.do_train)
        self.check_export(has_examples=self.do_train or bool(self.do_eval))

    def _check_task(self) -> None:
        task, name = self.task, f"--task_name={self.task_name}"
        is_tfds = self.data_source == "tfds"
        if self.recipe and task.name not in PAPER:
            raise InputError(f"--recipe=paper: has no row for {name}; expected {', '.join(PAPER)}")
        if self.race_level != "all" and task.name != RACE_TASK.name:
            raise InputError(f"--race_level={self.race_level}: expected --task_name=race")
        if is_tfds and not task.tfds:
            raise InputError(
                f"--data_source=tfds: received {name}; expected --data_source=files, or "
                f"--task_name={', '.join(_WITH_TFDS)}"
            )
        for column in dataclasses.fields(ColumnNames):
            if (task.sets or is_tfds) and getattr(self, column.name):
                raise InputError(f"--{column.name}: {name} has columns of its own")
        for split in self.splits:
            if task.sets and split not in task.sets:
                raise InputError(
                    f"{name}: has no {split} set, but {', '.join(task.sets)}; the model is that of "
                    f"--task_name={task.model_task}"
                )
            path = self.data_dir if task.sets else getattr(self, f"{split}_file")
            if not (is_tfds or path):
                flag = "data_dir" if task.sets else self.FILE_FLAGS[split]
                raise InputError(f"{name}: expected --{flag}; received none")
        read = ["data_dir"] if task.sets or is_tfds else _OWN_FILES
        for flag in ("data_dir", *_OWN_FILES):
            if flag not in read and getattr(self, flag):
                raise InputError(
                    f"--{flag}: {name} does not read it with --data_source={self.data_source}; expected "
                    f"--{', --'.join(sorted(read))}"
                )


def ask_for_something(flags: Mapping[str, Any]) -> bool:
    """Returns whether flags ask for a training, an evaluation, predictions or an export."""
    return any(flags.get(wish) for wish in _WISHES)
