"""Reads the questions of `run_squad.py`, and makes their windows or finds them on disk."""

import hashlib
import os
import sys
from collections.abc import Sequence

import numpy as np

from albert_tf import files
from albert_tf.data.squad.conventions import WindowConfig
from albert_tf.data.squad.questions import (
    SquadExample,
    describe_faults,
    read_squad,
    read_squad_tfds,
    show_ids,
)
from albert_tf.data.squad.window_arrays import SquadWindows, count_answer_tokens
from albert_tf.data.squad.window_records import name_shards, write_windows
from albert_tf.errors import InputError
from albert_tf.options import select
from albert_tf.tasks.fine_tuning.question_answering_options import QuestionAnsweringOptions
from albert_tf.tasks.flags import name_original_files
from albert_tf.tokenization import Tokenizer

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


def make_shards(
    options: QuestionAnsweringOptions,
    examples: Sequence[SquadExample],
    tokenizer: Tokenizer,
    name: str,
    with_offsets: bool,
) -> list[str]:
    """Returns the record files with the windows of some examples; writes those that do not exist.

    Args:
        options: options of the run.
        examples: the questions.
        tokenizer: maps text to ids.
        name: prefix of the files.
        with_offsets: whether the records hold the positions of the tokens in the passage.

    Raises:
        StoppedError: a worker died, or the file system refuses.
    """
    config = select(options, WindowConfig)
    # Existing files are used as they are, so their names depend on all that they were made of.
    content = hashlib.sha256()
    for part in (
        tokenizer.vocabulary_sha256,
        tokenizer.lower_case,
        config,
        with_offsets,
        *examples,
    ):
        content.update(repr(part).encode())
    prefix = os.path.join(options.features_dir, f"{name}-{content.hexdigest()[:16]}")
    shards = name_shards(prefix, len(examples))
    files.make_directory(options.features_dir)
    num_workers = options.num_workers or os.cpu_count()
    write_windows(examples, tokenizer, config, with_offsets, shards, num_workers=num_workers)
    return shards
