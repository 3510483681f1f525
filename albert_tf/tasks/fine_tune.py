"""Fine-tuning from Python, with the engine of the commands."""

import dataclasses
import difflib
import functools
import json
import os
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.backends import require_tensorflow
from albert_tf.errors import InputError, name_place
from albert_tf.files import as_path
from albert_tf.kinds import Classification
from albert_tf.kinds.registry import find_kind
from albert_tf.options import check_type
from albert_tf.options.kinds import option_fields
from albert_tf.tasks.fine_tuning.data import RunData
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.tasks.loaded import Loaded
from albert_tf.tasks.loading import load
from albert_tf.training.loop import Callback

# Flags that other arguments stand for, or that ask for something else than a model.
_NO_ARGUMENTS = (
    *("do_train", "do_eval", "do_predict", "task_name", "data_dir", "data_source"),
    *("train_file", "dev_file", "test_file", "unlabeled_file", "predict_file", "predict_format"),
    *("init_checkpoint", "output_dir"),
)


def fine_tune(
    model: str,
    train: Any = None,
    dev: Any = None,
    *,
    output_dir: str,
    unlabeled: Any = None,
    kind: str = Classification.name,
    callback: Callback | None = None,
    **flags: Any,
) -> Loaded:
    """Trains a model on texts with labels, and returns it with its best weights.

    It does what `albert-classify` does: a training that was stopped is resumed, and
    `albert_tf.load(output_dir)` returns the same model later.

    Args:
        model: the model to start from, as `--init_checkpoint` takes it.
        train: the training set: a path, a pandas DataFrame, a `datasets.Dataset`, or a list of
            dictionaries, with columns such as `text` and `label`. Questions have the columns `question`,
            `context` and `answers`, as in SQuAD's dataset or as texts, see docs/question_answering.md, or
            are the path of a file in SQuAD's format.
        dev: the same to evaluate on. Default: a tenth of the training set, see `dev_fraction`; nothing
            for questions, and for pairs without scores. Where questions may have no answer, it chooses
            `null_score_diff_threshold`, unless that is given.
        output_dir: folder for checkpoints, metrics and results.
        unlabeled: more texts to train on, which the teacher labels, with `teacher="..."`: a path, a list
            of texts, or the same as `train` without labels, which then may be missing.
        kind: `classification`, `regression`, `multi_label`, `multiple_choice`, `token_classification`,
            `embedding`, `question_answering`, or a kind of your own, see docs/kinds.md.
        callback: called after each report with the number of updates and the metrics, such as
            `train_loss` and `eval_accuracy`.
        **flags: hyperparameters and other flags of the command, with their names and defaults, e.g.
            `learning_rate=3e-5`, `num_train_epochs=5`, `class_weights={"yes": 2}`, `text_column="body"`;
            `kind_options={...}` are those of a kind of another package.

    Raises:
        InputError: an argument is unknown or out of range, a row is not as expected, or the data are of
            another kind.
    """
    require_tensorflow("albert_tf.fine_tune")
    with name_place(f"kind={kind!r}"):
        find_kind(kind)
    flags = _check_flags(flags)
    given = {"train": train, "dev": dev, "unlabeled": unlabeled}
    if train is None and unlabeled is None:
        raise InputError("train: missing; expected it, or unlabeled and a teacher")
    if unlabeled is not None and flags.get("teacher") is None:
        raise InputError("unlabeled: expected teacher, too")
    sources = {split: data for split, data in given.items() if data is not None}
    in_memory = {
        split: data for split, data in sources.items() if not isinstance(data, str | os.PathLike)
    }
    files: dict[str, Any] = {
        f"{split}_file": split if split in in_memory else as_path(source)
        for split, source in sources.items()
    }
    options = FineTuningOptions(
        init_checkpoint=as_path(model),
        output_dir=as_path(output_dir),
        do_train=True,
        task_name=kind,
        **files,
        **flags,
    )
    run(options.with_evaluation(), in_memory, functools.partial(_check, kind), callback)
    return load(output_dir)


def _check(kind: str, data: RunData) -> None:
    if data.kind.name != kind:
        raise InputError(f"kind={kind!r}: the columns of the data say kind={data.kind.name!r}")
    if data.kind.missing and not data.dev_set:
        has_flag = data.kind.missing in option_fields(type(data.kind))
        other = f", or {data.kind.missing}" if has_flag else ""
        raise InputError(
            f"dev: expected data to choose {data.kind.missing} by{other}; received none"
        )


def _check_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Returns the flags with paths as strings, if each is one that has a meaning here, of its type."""
    types_of = typing.get_type_hints(FineTuningOptions)
    known = {field.name for field in dataclasses.fields(FineTuningOptions)} - {*_NO_ARGUMENTS}
    checked = {}
    for name, value in flags.items():
        if name not in known:
            nearest = difflib.get_close_matches(name, known)
            hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
            raise InputError(f"fine_tune: unknown argument '{name}'{hint}")
        if name == "kind_options" and isinstance(value, Mapping):
            value = tuple(f"{option}={_as_text(each)}" for option, each in value.items())
        checked[name] = _flag_value(value)
        check_type(name, checked[name], types_of[name])
    return checked


def _as_text(value: Any) -> str:
    """Returns the value of an option of a kind as `--kind_options` has it: text, or JSON."""
    return value if isinstance(value, str) else json.dumps(_flag_value(value))


def _flag_value(value: Any) -> Any:
    """Returns an argument as the type that its flag has: of NumPy's numbers, paths and dictionaries."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return json.dumps(value)
    return as_path(value) if isinstance(value, str | os.PathLike) else value
