"""Reads the examples of a fine-tuning run and checks them against the model's kind."""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.loading import stored_labels
from albert_tf.data.fine_tuning import own_files, race
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.tfds import read_tfds
from albert_tf.data.fine_tuning.tsv import Example, Labels, LabelSets, Scores, Table
from albert_tf.errors import FlagError, InputError, name_flags
from albert_tf.kinds import Kind
from albert_tf.kinds.kind import KIND_FILE
from albert_tf.kinds.registry import find_kind, option_fields, read_kind
from albert_tf.tasks.common import has_checkpoint, name_remedy
from albert_tf.tasks.fine_tuning.classification_options import ClassificationOptions
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import ExampleSet, check_lines
from albert_tf.tasks.flags import name_original_files
from albert_tf.tasks.trained_folder import kind_of, options_path, read_options
from albert_tf.tokenization import Tokenizer

# Split -> name of the set -> examples.
Splits = Mapping[str, Mapping[str, list[Any]]]


@dataclasses.dataclass(frozen=True)
class RunData:
    """What a run learns, evaluates and predicts. Trials share it.

    Attributes:
        row: row of the table of tasks.
        kind: what the model predicts.
        tokenizer: maps text to ids.
        sets: split -> its sets; only those that the run reads.
    """

    row: Task
    kind: Kind
    tokenizer: Tokenizer
    sets: Mapping[str, Sequence[ExampleSet]]

    @property
    def train_features(self) -> Features | None:
        """The training set; None without `--do_train`."""
        return self.sets["train"][0].features if "train" in self.sets else None

    @property
    def dev_set(self) -> ExampleSet | None:
        """The set that selects the best checkpoint and the thresholds; None without one."""
        return self.sets["dev"][0] if "dev" in self.sets else None

    @property
    def best_metric(self) -> str:
        """Name of the metric that selects the best checkpoint. The higher, the better."""
        prefix = self.dev_set.prefix if self.dev_set else ""
        return prefix + (self.kind.metrics[0] if self.kind.metrics else "")


def read_data(options: ClassificationOptions, tokenizer: Tokenizer) -> RunData:
    """Reads the splits that the options of `run_classifier.py` ask for.

    Raises:
        InputError: a file or a row contradicts the options or the model.
    """
    check_lines(options.predict_file)
    row = race.select_level(options.task, options.race_level)
    if row.name == own_files.OWN_TASK.name:
        options.check_kinds(own_files.OWN_KINDS)
        row, examples = _read_own_files(options)
        kind = start_kind(options, row)
        if options.do_train:
            kind = dataclasses.replace(kind, labels=_names_of(row.labels))
            (train,) = examples["train"].values()
            kind = dataclasses.replace(kind, pairs=_are_pairs(train))
        _check_pairs(options, examples, kind.pairs)
    elif row.sets:
        examples = {split: _read_split(options, row, split) for split in options.splits}
        kind = start_kind(options, row)
        if options.do_train:
            more = {"labels": _names_of(row.labels), "metrics": (*row.metrics, *row.more_metrics)}
            pairs = {"pairs": True} if _are_pairs(examples["train"][""]) else {}
            kind = dataclasses.replace(kind, **more, **pairs)
    else:
        kind, examples = _read_files(options, start_kind(options, row))
    if {"train", "dev"} <= set(examples):
        _warn_of_shared_rows(examples["train"][""], examples["dev"])
    return make_data(options, row, kind, tokenizer, examples)


def make_data(
    options: FineTuningOptions, row: Task, kind: Kind, tokenizer: Tokenizer, examples: Splits
) -> RunData:
    """Converts the examples of a run to ids.

    Raises:
        InputError: the options contradict the kind, or an example does not fit them.
    """
    if options.export_dir:
        with name_flags():
            kind.check_export(options.export_format, options.export_weights, tokenizer)
    if options.do_train:
        fault = kind.micro_batch_fault(options.train_batch_size // options.accumulate_steps)
        if fault:
            raise FlagError(f"--train_batch_size={options.train_batch_size}: {fault}")
    with name_flags():
        sets = {
            split: [
                ExampleSet(name, rows, kind.encode(rows, tokenizer))
                for name, rows in of_split.items()
            ]
            for split, of_split in examples.items()
        }
    for split, (one,) in sets.items() if not row.sets else ():
        path = getattr(options, f"{split}_file", None) or row.name
        for fault in kind.find_faults(path, split, one.examples, one.features):
            print(f"warning: {fault}", file=sys.stderr)
    return RunData(row, kind, tokenizer, sets)


def start_kind(options: FineTuningOptions, row: Task) -> Kind:
    """Returns the kind as the options define it or, without training, the model's."""
    options.check_kinds([row.kind])
    kind = find_kind(row.kind)
    values = {name: getattr(options, name, None) for name in option_fields(kind)}
    given = {name: value for name, value in values.items() if value is not None}
    with name_flags():
        if not options.do_train:
            there = read_model_kind(options)
            expected = {"task_name": row.model_task, "name": row.kind}
            if row.sets:
                expected["labels"] = _names_of(row.labels)
            _check_task(options, there, expected)
            return dataclasses.replace(there, **given)
        return kind(task_name=row.model_task, **given)


def _read_files(options: ClassificationOptions, kind: Kind) -> tuple[Kind, Splits]:
    """Returns the kind with the labels of the training file, and the examples of the user's files."""
    examples = {}
    for split in options.splits:
        path = _own_file(options, split)
        examples[split] = {"": kind.read(path, split)}
        if split == "train":
            kind = kind.fit_labels(examples[split][""], path)
    return kind, examples


def _read_own_files(options: ClassificationOptions) -> tuple[Task, Splits]:
    """Returns the task that the training file or the model defines, and its examples."""
    tables = {split: Table.read(_own_file(options, split)) for split in options.splits}
    if options.do_train:
        row = own_files.recognise_task(tables["train"], options.label_type)
    else:
        kind = read_model_kind(options)
        labels = getattr(kind, "accepted_labels", kind.labels)
        row = own_files.complete_task(kind.name, labels)
    examples = {}
    for split, table in tables.items():
        examples[split] = {"": own_files.read_own(table, split, row)}
        if row.labels in (None, LabelSets()):
            labels = own_files.collect_labels(examples[split][""], table.path, row.kind)
            row = own_files.complete_task(row.kind, labels)
    return row, examples


def _own_file(options: ClassificationOptions, split: str) -> str:
    path = getattr(options, f"{split}_file")
    if not tf.io.gfile.exists(path):
        raise InputError(f"--{split}_file: no file '{path}'")
    return path


def _read_split(options: ClassificationOptions, row: Task, split: str) -> dict[str, list[Example]]:
    """Returns the examples of each set of a split."""
    if options.data_source == "tfds":
        with name_original_files("data_dir"):
            return {name: read_tfds(row, split, name, options.data_dir) for name in row.sets[split]}
    with name_flags():
        return {
            name: source.read(options.data_dir, split, row.labels)
            for name, source in row.sets[split].items()
        }


def _names_of(labels: Labels) -> tuple[str, ...]:
    """Returns the names of labels; none for scores."""
    if isinstance(labels, LabelSets):
        return labels.names
    return () if isinstance(labels, Scores) else tuple(labels)


def _are_pairs(examples: Sequence[Example]) -> bool:
    """Returns whether examples of one file have a second text."""
    return examples[0].text_b is not None


def _check_pairs(
    options: ClassificationOptions,
    examples: Mapping[str, Mapping[str, Sequence[Example]]],
    pairs: bool,
) -> None:
    """Checks that the user's files hold single texts or pairs, as the training set does.

    Raises:
        InputError: one of them has pairs and the other has single texts.
    """
    for split, sets in examples.items():
        if _are_pairs(sets[""]) != pairs:
            has, model_has = ("no", "one") if pairs else ("a", "none")
            raise InputError(
                f"--{split}_file={getattr(options, f'{split}_file')}: has {has} column 'text_b'; what "
                f"the model is trained on has {model_has}"
            )


def _warn_of_shared_rows(train: Sequence[Any], dev_sets: Mapping[str, Sequence[Any]]) -> None:
    """Counts the dev rows that are training rows, too."""
    if not isinstance(train[0], Example):
        return

    def texts(example: Example) -> tuple:
        return example.text_a, example.text_b, example.choices

    known = {texts(example) for example in train}
    for name, dev in dev_sets.items():
        shared = sum(texts(example) in known for example in dev)
        if shared:
            which = f"{name} dev" if name else "dev"
            print(
                f"warning: {shared} of {len(dev)} {which} rows have the texts of a training row",
                file=sys.stderr,
            )


def read_model_kind(options: FineTuningOptions) -> Kind:
    """Returns the kind of the trained folder or the exported model.

    Raises:
        InputError: the folder holds no fine-tuned model.
    """
    if not tf.io.gfile.exists(os.path.join(options.model_dir, KIND_FILE)):
        raise InputError(f"{options.model_flag}: holds no fine-tuned model: no {KIND_FILE}")
    return read_kind(options.model_dir)


def check_kind(options: FineTuningOptions, kind: Kind) -> None:
    """Checks that the model that the run starts from was trained on the same task.

    Raises:
        InputError: it was trained on another one, or has other labels, or has them in another order.
    """
    if options.exported_model or has_checkpoint(options):
        if not (options.do_train and _is_removed(options, kind)):
            with name_remedy():
                there = read_model_kind(options)
            _check_task(
                options,
                there,
                {name: getattr(kind, name) for name in ("task_name", "name", "labels")},
            )
            _check_fields(options, there, kind)
    elif options.init_checkpoint and not options.reset_head:
        noted = kind_of(options.init_checkpoint)
        received = noted.labels if noted else stored_labels(options.init_checkpoint)
        # A head of another size is reported with its shape.
        if received != kind.labels and len(received) == len(kind.labels):
            raise InputError(
                f"--init_checkpoint={options.init_checkpoint}: its head is of the classes "
                f"{', '.join(received)}; this task's are {', '.join(kind.labels)}; --reset_head "
                "initialises a new head"
            )


def _check_task(options: FineTuningOptions, there: Kind, expected: Mapping[str, Any]) -> None:
    """Raises an `InputError` if the fields of a model's kind are others than expected."""
    for name, value in expected.items():
        if getattr(there, name) != value:
            raise InputError(
                f"{options.model_flag}: holds a model of another task: "
                f"{'kind' if name == 'name' else name} {_shown(getattr(there, name))}, but this run has "
                f"{_shown(value)}"
            )


def _check_fields(options: FineTuningOptions, there: Kind, kind: Kind) -> None:
    """Raises an `InputError` if the weights, or the training to resume, have other options."""
    for name in (*kind.of_weights, *(kind.of_training if options.do_train else ())):
        if getattr(there, name) != getattr(kind, name):
            raise InputError(
                f"{options.model_flag}: holds the checkpoints of a run with {name} "
                f"{getattr(there, name)}; --{name} says {getattr(kind, name)}"
            )


def _is_removed(options: FineTuningOptions, kind: Kind) -> bool:
    """Returns whether the user has removed the kind's file from a folder of this task."""
    path = os.path.join(options.output_dir, KIND_FILE)
    if tf.io.gfile.exists(path):
        return False
    saved = options_path(options.output_dir)
    if not tf.io.gfile.exists(saved):
        return False
    if read_options(saved).get("task_name") not in (None, kind.task_name):
        return False
    print(f"warning: {path}: missing; writing it again from the flags", file=sys.stderr)
    return True


def _shown(value: str | tuple[str, ...]) -> str | list[str]:
    return list(value) if isinstance(value, tuple) else value
