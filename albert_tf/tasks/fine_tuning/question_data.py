"""Reads the questions of `run_squad.py`, and warns of those that cannot be used."""

import sys
from collections.abc import Sequence

import numpy as np

from albert_tf.data.fine_tuning.squad_questions import (
    SquadExample,
    describe_faults,
    read_squad,
    read_squad_tfds,
    show_ids,
)
from albert_tf.data.fine_tuning.squad_windows import SquadWindows, count_answer_tokens
from albert_tf.errors import InputError
from albert_tf.tasks.fine_tuning.question_answering_options import QuestionAnsweringOptions
from albert_tf.tasks.flags import name_original_files

_TFDS_BUILDERS = {False: "squad", True: "squad/v2.0"}


def read_training_set(options: QuestionAnsweringOptions) -> tuple[list[SquadExample], bool]:
    """Reads the questions to train on, and reports those that cannot be used on standard error.

    Returns:
        The usable questions, and whether any question of the file has no answer.

    Raises:
        InputError: the file cannot be read or is not SQuAD's, or no question can be used.
    """
    examples, source = _read(options, options.train_file, "train", labelled=True)
    _warn(describe_faults(examples, source, training=True))
    trainable = [example for example in examples if example.is_trainable]
    if not trainable:
        raise InputError(f"{source}: none of {len(examples)} questions can be trained on")
    return trainable, any(example.is_impossible for example in examples)


def read_prediction_set(options: QuestionAnsweringOptions) -> list[SquadExample]:
    """Reads the questions to evaluate on or to answer.

    Raises:
        InputError: the file cannot be read or is not SQuAD's.
    """
    labelled = options.do_train or options.do_eval
    examples, source = _read(options, options.predict_file, "validation", labelled)
    if labelled:
        _warn(describe_faults(examples, source, training=False))
    return examples


def _read(
    options: QuestionAnsweringOptions, path: str | None, split: str, labelled: bool
) -> tuple[list[SquadExample], str]:
    """Returns the examples and the name of their source."""
    if options.data_source == "files":
        return read_squad(path, labelled), path
    builder = _TFDS_BUILDERS[bool(options.version_2_with_negative)]
    with name_original_files("train_file", "predict_file"):
        return read_squad_tfds(builder, split, options.data_dir), f"{builder}, {split}"


def _warn(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)


def warn_of_long_answers(
    examples: Sequence[SquadExample], windows: SquadWindows, max_answer_length: int
) -> None:
    """Reports how many questions `--max_answer_length` makes unanswerable."""
    counts = count_answer_tokens(examples, windows)
    too_long = np.flatnonzero(counts > max_answer_length)
    if len(too_long):
        ids = show_ids([examples[index].id for index in too_long])
        _warn(
            [
                f"--max_answer_length={max_answer_length}: {len(too_long)} of {len(examples)} questions "
                f"to evaluate on have only longer answers, of up to {counts.max()} tokens, and cannot be "
                f"answered right ({ids})"
            ]
        )
