"""Reads the examples of `run_classifier.py` and checks them against the model's label metadata."""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.fine_tuning import own_files, race
from albert_tf.data.fine_tuning.tagged_text import collect_labels, read_tagged
from albert_tf.data.fine_tuning.tags import TagTable, make_tags
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.tfds import read_tfds
from albert_tf.data.fine_tuning.tsv import Example, Labels, LabelSets, Scores, Table
from albert_tf.errors import InputError, name_flags
from albert_tf.tasks.common import has_checkpoint, name_remedy
from albert_tf.tasks.fine_tuning.classification_options import ClassificationOptions
from albert_tf.tasks.flags import name_original_files
from albert_tf.tasks.trained_folder import (
    LABEL_METADATA_FILE,
    LabelMetadata,
    options_path,
    read_options,
)


class TextData(NamedTuple):
    """The examples of a run.

    Attributes:
        row: row of the table of tasks; for the user's own task, completed from the files.
        metadata: meaning of the model's outputs.
        examples: split -> name of the set -> examples.
    """

    row: Task
    metadata: LabelMetadata
    examples: Mapping[str, Mapping[str, list[Example]]]


def read_text_data(options: ClassificationOptions) -> TextData:
    """Reads the splits that the options ask for.

    Raises:
        InputError: a file or a row contradicts the options or the model.
    """
    row = race.select_level(options.task, options.race_level)
    if row.name == own_files.TAGGING_TASK.name:
        row, examples = _read_tagged_files(options, row)
    elif row.name == own_files.EMBEDDING_TASK.name:
        examples = _read_pair_files(options)
    elif row.name == own_files.OWN_TASK.name:
        row, examples = _read_own_files(options)
    else:
        examples = {split: _read_split(options, row, split) for split in options.splits}
    pairs = _have_pairs(options, row, examples)
    metadata = LabelMetadata(row.model_task, row.kind, _names_of(row.labels), pairs)
    if {"train", "dev"} <= set(examples):
        _warn_of_shared_rows(examples["train"][""], examples["dev"])
    return TextData(row, metadata, examples)


def _read_own_files(
    options: ClassificationOptions,
) -> tuple[Task, dict[str, dict[str, list[Example]]]]:
    """Returns the task that the training file or the model defines, and its examples."""
    tables = {split: Table.read(_own_file(options, split)) for split in options.splits}
    if options.do_train:
        row = own_files.recognise_task(tables["train"], options.label_type)
    else:
        metadata = read_label_metadata(options)
        row = own_files.complete_task(metadata.kind, metadata.accepted_labels)
    examples = {}
    for split, table in tables.items():
        examples[split] = {"": own_files.read_own(table, split, row)}
        if row.labels in (None, LabelSets()):
            labels = own_files.collect_labels(examples[split][""], table.path, row.kind)
            row = own_files.complete_task(row.kind, labels)
    return row, examples


def _read_tagged_files(
    options: ClassificationOptions, row: Task
) -> tuple[Task, dict[str, dict[str, list[Example]]]]:
    """Returns the task with the tags that the training file or the model defines, and its examples."""
    tags = () if options.do_train else read_label_metadata(options).labels
    labels = TagTable.from_tags(tags).labels if tags else None
    examples = {}
    for split in options.splits:
        path = _own_file(options, split)
        examples[split] = {"": read_tagged(path, split, labels)}
        if labels is None:
            labels = collect_labels(examples[split][""], path)
            tags = make_tags(labels, options.tagging_scheme)
    return dataclasses.replace(row, labels=tags), examples


def _read_pair_files(options: ClassificationOptions) -> dict[str, dict[str, list[Example]]]:
    """Returns the texts or pairs to train an embedder on, and those to compare."""
    return {
        split: {"": own_files.read_pairs(Table.read(_own_file(options, split)), split)}
        for split in options.splits
    }


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


def _have_pairs(
    options: ClassificationOptions,
    row: Task,
    examples: Mapping[str, Mapping[str, Sequence[Example]]],
) -> bool:
    """Returns whether examples have two texts, as those of the training set; an embedder compares two.

    Raises:
        InputError: one of the user's files has pairs and the other has single texts.
    """
    if row.kind == "embedding":
        return False
    train_set = examples.get("train", {}).get("")
    pairs = _are_pairs(train_set) if train_set else read_label_metadata(options).pairs
    if not row.sets:
        _check_pairs(options, examples, pairs)
    return pairs


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


def _warn_of_shared_rows(
    train: Sequence[Example], dev_sets: Mapping[str, Sequence[Example]]
) -> None:
    """Counts the dev rows that are training rows, too."""

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


def read_label_metadata(options: ClassificationOptions) -> LabelMetadata:
    """Returns the label metadata of the trained folder or the exported model.

    Raises:
        InputError: the folder holds no classifier.
    """
    path = os.path.join(options.model_dir, LABEL_METADATA_FILE)
    if not tf.io.gfile.exists(path):
        raise InputError(f"{options.model_flag}: holds no classifier: no {LABEL_METADATA_FILE}")
    return LabelMetadata.from_json_file(path)


def check_label_metadata(options: ClassificationOptions, metadata: LabelMetadata) -> None:
    """Checks that the model to use or to resume was trained on the same task.

    Raises:
        InputError: it was trained on another one.
    """
    if not options.exported_model and not has_checkpoint(options):
        return
    if options.do_train and _is_removed(options):
        return
    with name_remedy():
        stored = read_label_metadata(options)
    for name in ("task_name", "kind", "labels"):
        there, ours = getattr(stored, name), getattr(metadata, name)
        if there != ours:
            raise InputError(
                f"{options.model_flag}: holds a model of another task: "
                f"{name} {_shown(there)}, but this run has {_shown(ours)}"
            )


def _is_removed(options: ClassificationOptions) -> bool:
    """Returns whether the user has removed the label metadata from a folder of this task."""
    path = os.path.join(options.output_dir, LABEL_METADATA_FILE)
    if tf.io.gfile.exists(path):
        return False
    saved = options_path(options.output_dir)
    if not tf.io.gfile.exists(saved) or read_options(saved).get("task_name") != options.task_name:
        return False
    print(f"warning: {path}: missing; writing it again from the flags", file=sys.stderr)
    return True


def _shown(value: str | tuple[str, ...]) -> str | list[str]:
    return list(value) if isinstance(value, tuple) else value
