"""Fine-tuning on texts: GLUE, RACE and the user's own files."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from albert_tf.data.fine_tuning.race import LEVELS
from albert_tf.data.fine_tuning.tables import ColumnNames
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
from albert_tf.options.kinds import KIND_FLAGS, with_kind_options
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.training_options import PAPER

_OWN_FILES = ("train_file", "dev_file", "test_file")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ClassificationOptions(ColumnNames, FineTuningOptions):
    """The options of `run_classifier.py`."""

    WANTED: ClassVar = (*FineTuningOptions.WANTED, "predict_file")

    task_name: str | None = option(
        f"Task: {', '.join(dict.fromkeys((*TASKS, *KIND_FLAGS)))}. Without --do_train it defaults to the "
        "model's task, and for a --train_file to classification.",
        None,
    )
    data_dir: str | None = option(
        "Folder of the GLUE tasks, of RACE, or of TensorFlow Datasets.", None
    )
    train_file: str | None = option(
        "File to train on, for a --task_name without files of its own: CSV, TSV or Parquet with names of "
        "columns, JSON lines, a folder of datasets, or CoNLL.",
        None,
    )
    dev_file: str | None = option(
        "File to evaluate on. Default: a part of --train_file, see --dev_fraction.", None
    )
    test_file: str | None = option("File to predict.", None)
    dev_fraction: float = option(
        "Fraction of --train_file, drawn with --random_seed, that is the dev set without --dev_file.",
        0.1,
        least=0,
        most=0.9,
    )
    race_level: Literal[("all", *LEVELS)] = option("Articles to use (--task_name=race).", "all")
    best_metric: str | None = option(
        "Metric that selects the best checkpoint. Default: the task's first one.", None
    )
    do_predict: bool = option("Predict the test set with the best checkpoint.", False)
    predict_file: str | None = option(
        "File to answer on standard output: a table as for --test_file, or lines of text with tabs "
        "between texts; - is standard input, lines of text.",
        None,
    )
    predict_format: Literal["tsv", "jsonl"] = option(
        "Answer --predict_file with a header row and tabs between columns, or with JSON lines.",
        "tsv",
    )

    def __post_init__(self):
        if self.train_file:
            self._assume_training()
        super().__post_init__()
        if self.do_train and not self.task_name:
            raise InputError("--do_train: expected --task_name; received none")
        self.check_combinations(
            has_dev_set=self.task_name is None or self.holds_out or "dev" in self.splits
        )
        if self.task_name is not None:
            self._check_task()

    def _assume_training(self) -> None:
        """Sets what a training file that nothing is said of asks for: to train, evaluate and export."""
        assume = functools.partial(object.__setattr__, self)  # as the dataclass is frozen
        asks = any(getattr(self, name) for name in FineTuningOptions.WANTED)
        if not asks:
            assume("do_train", True)
        if self.task_name is None and self.do_train:
            assume("task_name", OWN_TASK.name)
        if not asks:
            assume("do_eval", bool(self.dev_file) or self.holds_out)
            assume("export_dir", os.path.join(self.output_dir, "exported"))

    @property
    def lines_file(self) -> str | None:
        """The file whose lines are answered on standard output."""
        return self.predict_file

    @property
    def task(self) -> Task:
        """The row of the task."""
        from albert_tf.kinds.registry import KINDS, load_kinds

        if self.task_name not in TASKS and self.task_name in load_kinds():
            return Task(name=self.task_name, metrics=(), kind=self.task_name)
        task = find_task(self.task_name, KINDS)
        return select_level(task, self.race_level) if task.name == RACE_TASK.name else task

    @property
    def splits(self) -> list[str]:
        """The splits to read. Training chooses its best checkpoint on the dev set, if there is one."""
        has_dev_set = "dev" in self.task.sets if self.task.sets else bool(self.dev_file)
        wanted = {
            "train": self.do_train,
            "dev": not self.holds_out and (self.do_eval or (self.do_train and has_dev_set)),
            "test": self.do_predict,
        }
        return [split for split, is_wanted in wanted.items() if is_wanted]

    @property
    def holds_out(self) -> bool:
        """Whether a part of the training file becomes the dev set."""
        from albert_tf.kinds.registry import find_kind

        wanted = self.do_train and self.dev_fraction > 0 and not self.dev_file
        return wanted and not self.task.sets and find_kind(self.task.kind).can_hold_out

    def complete(self, train: Any = None) -> "_ClassificationOptions":
        """Returns the options with the values of those that the user left out."""
        recipe = PAPER[self.task.name] if self.recipe and self.do_train else None
        completed = self.fill(recipe)
        if completed.task_name is None or completed.albert_config_file is None:
            raise InputError(
                f"--output_dir={self.output_dir}: holds no classifier; expected a folder that --do_train "
                "wrote"
            )
        return completed

    def _check_task(self) -> None:
        task, name = self.task, f"--task_name={self.task_name}"
        if self.recipe and task.name not in PAPER:
            raise InputError(f"--recipe=paper: has no row for {name}; expected {', '.join(PAPER)}")
        if self.race_level != "all" and task.name != RACE_TASK.name:
            raise InputError(f"--race_level={self.race_level}: expected --task_name=race")
        for flag in dataclasses.fields(ColumnNames):
            if task.sets and getattr(self, flag.name):
                raise InputError(f"--{flag.name}: {name} has columns of its own")
        for split in self.splits:
            if task.sets and split not in task.sets:
                raise InputError(
                    f"{name}: has no {split} set, but {', '.join(task.sets)}; the model is that of "
                    f"--task_name={task.model_task}"
                )
            flag = "data_dir" if task.sets else f"{split}_file"
            if self.data_source == "files" and not getattr(self, flag):
                raise InputError(f"{name}: expected --{flag}; received none")
        if self.data_source == "tfds" and not task.tfds:
            raise InputError(f"--data_source=tfds: TensorFlow Datasets has no {name}")
        read = ("data_dir",) if task.sets else _OWN_FILES
        for flag in ("data_dir", *_OWN_FILES):
            if flag not in read and getattr(self, flag):
                raise InputError(
                    f"--{flag}: {name} does not read it; expected --{', --'.join(sorted(read))}"
                )


def options_class(kinds: Mapping[str, type]) -> type:
    """Returns `ClassificationOptions` with the options of more kinds: those of other packages."""
    return with_kind_options(_ClassificationOptions, {**KIND_FLAGS, **kinds})


ClassificationOptions = options_class({})
