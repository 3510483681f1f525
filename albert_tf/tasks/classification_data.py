"""What `run_classifier.py` reads: the task, its examples and their ids."""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf import files
from albert_tf.data.fine_tuning import own_files, race
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.task import Task
from albert_tf.data.fine_tuning.tfds import read_tfds
from albert_tf.data.fine_tuning.tsv import Example, Scores
from albert_tf.errors import InputError
from albert_tf.tasks.classification_options import ClassificationOptions
from albert_tf.tasks.common import has_checkpoint, name_remedy
from albert_tf.tasks.kinds import KINDS
from albert_tf.tasks.trained_folder import LABEL_METADATA_FILE, LabelMetadata, read_folder
from albert_tf.tokenization import Tokenizer


class Set(NamedTuple):
    """One set of a split.

    Attributes:
        name: what it is called, e.g. `matched`; empty where it is the only one.
        examples: of it.
        features: of it.
    """

    name: str
    examples: list[Example]
    features: Features


@dataclasses.dataclass(frozen=True)
class Data:
    """What a run reads before it makes a model, so that every mistake in it shows at once.

    Attributes:
        task: the row of the table; of the user's own task, completed.
        head: what the model's head means.
        sets: of each split.
    """

    task: Task
    head: LabelMetadata
    sets: Mapping[str, list[Set]]


def read_data(options: ClassificationOptions, tokenizer: Tokenizer) -> Data:
    """Reads the sets that the options ask for.

    Raises:
        InputError: a file or a row is not what the options say.
    """
    task = _find_task(options)
    examples = {}
    for split in options.splits:
        examples[split] = _read_split(options, task, split)
        if task.labels is None:
            labels = own_files.collect_labels(examples[split][""], options.train_file)
            task = own_files.complete_task(task.kind, labels)
    head = _make_head(options, task, examples)
    if not task.sets:
        _check_pairs(options, examples, head.pairs)
    if {"train", "dev"} <= set(examples):
        _warn_of_shared_rows(examples["train"][""], examples["dev"])
    kind = KINDS[task.kind]
    sets = {
        split: [
            Set(name, rows, kind.encode(rows, task.labels, tokenizer, options))
            for name, rows in of_split.items()
        ]
        for split, of_split in examples.items()
    }
    return Data(task, head, sets)


def _find_task(options: ClassificationOptions) -> Task:
    """Returns the task's row with what the files, the flags or the trained folder add to it."""
    task = race.select_level(options.task, options.race_level)
    if task.name != own_files.OWN_TASK.name:
        return task
    if options.do_train:
        return own_files.recognise_task(options.train_file, options.label_type)
    head = read_head(options)
    return own_files.complete_task(head.kind, head.accepted_labels)


def _read_split(options: ClassificationOptions, task: Task, split: str) -> dict[str, list[Example]]:
    """Returns the examples of each set."""
    if not task.sets:
        return {"": own_files.read_own(getattr(options, f"{split}_file"), split, task)}
    if options.data_source == "tfds":
        return {name: read_tfds(task, split, name, options.data_dir) for name in task.sets[split]}
    return {
        name: source.read(options.data_dir, split, task.labels)
        for name, source in task.sets[split].items()
    }


def _make_head(
    options: ClassificationOptions, task: Task, examples: Mapping[str, Mapping[str, list[Example]]]
) -> LabelMetadata:
    pairs = _are_pairs(examples["train"][""]) if options.do_train else read_head(options).pairs
    labels = () if isinstance(task.labels, Scores) else tuple(task.labels)
    return LabelMetadata(task.model_task, task.kind, labels, pairs)


def _are_pairs(examples: Sequence[Example]) -> bool:
    """Returns whether examples, which are of one file, have a second text."""
    return examples[0].text_b is not None


def _check_pairs(
    options: ClassificationOptions,
    examples: Mapping[str, Mapping[str, Sequence[Example]]],
    pairs: bool,
) -> None:
    """Checks that the user's files are of the texts that the model is trained on.

    Raises:
        InputError: one has pairs, the other single texts.
    """
    for split, of_split in examples.items():
        if _are_pairs(of_split[""]) != pairs:
            has, model_has = ("no", "one") if pairs else ("a", "none")
            raise InputError(
                f"--{split}_file={getattr(options, f'{split}_file')}: has {has} column 'text_b'; what "
                f"the model is trained on has {model_has}"
            )


def _warn_of_shared_rows(
    train: Sequence[Example], dev_sets: Mapping[str, Sequence[Example]]
) -> None:
    """Says how many dev rows the model has learnt by heart, where there are some."""
    known = {_texts(example) for example in train}
    for name, dev in dev_sets.items():
        shared = sum(_texts(example) in known for example in dev)
        if shared:
            which = f"{name} dev" if name else "dev"
            print(
                f"warning: {shared} of {len(dev)} {which} rows have the texts of a training row",
                file=sys.stderr,
            )


def _texts(example: Example) -> tuple:
    return example.text_a, example.text_b, example.choices


def read_head(options: ClassificationOptions) -> LabelMetadata:
    """Returns what the head of the model means that is there.

    Raises:
        InputError: the folder holds no classifier.
    """
    path = os.path.join(options.model_dir, LABEL_METADATA_FILE)
    if not tf.io.gfile.exists(path):
        raise InputError(f"{options.model_flag}: holds no classifier: no {LABEL_METADATA_FILE}")
    return LabelMetadata.from_json_file(path)


def write_head(options: ClassificationOptions, head: LabelMetadata) -> None:
    """Notes what the head means beside the checkpoints."""
    files.write_json(
        os.path.join(options.output_dir, LABEL_METADATA_FILE), dataclasses.asdict(head)
    )


def check_head(options: ClassificationOptions, head: LabelMetadata) -> None:
    """Checks that the model that is there is of this task.

    Raises:
        InputError: it is of another.
    """
    if not options.exported_model and not has_checkpoint(options):
        return
    if options.do_train and _lacks_description(options):
        return
    with name_remedy():
        there = read_head(options)
    for name in ("task_name", "kind", "labels"):
        if getattr(there, name) != getattr(head, name):
            raise InputError(
                f"{options.model_flag}: holds a model of another task: "
                f"{name} {_shown(there, name)}, but this run has {_shown(head, name)}"
            )


def _lacks_description(options: ClassificationOptions) -> bool:
    """Returns whether the note on the head is missing in a folder of this task."""
    path = os.path.join(options.output_dir, LABEL_METADATA_FILE)
    if tf.io.gfile.exists(path):
        return False
    if read_folder(options.output_dir, ("task_name",)).get("task_name") != options.task_name:
        return False
    print(f"warning: {path}: missing; written anew as the flags say", file=sys.stderr)
    return True


def _shown(head: LabelMetadata, name: str):
    value = getattr(head, name)
    return list(value) if isinstance(value, tuple) else value
