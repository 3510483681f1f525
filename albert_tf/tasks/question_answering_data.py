"""What `run_squad.py` reads: questions, and their windows on disk."""

import hashlib
import os
import sys
from collections.abc import Sequence

import numpy as np

from albert_tf import files
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.squad.questions import (
    SquadExample,
    describe_faults,
    read_squad,
    read_squad_tfds,
    select_trainable,
    show_ids,
)
from albert_tf.data.squad.window_arrays import (
    SquadWindows,
    count_answer_tokens,
    read_features,
    read_windows,
)
from albert_tf.data.squad.window_records import name_shards, write_windows
from albert_tf.errors import InputError
from albert_tf.tasks.question_answering_options import QuestionAnsweringOptions
from albert_tf.tokenization import AlbertTokenizer

_TFDS_BUILDERS = {False: "squad", True: "squad/v2.0"}


def read_training_set(options: QuestionAnsweringOptions) -> list[SquadExample]:
    """Reads the questions that can be trained on; says on standard error what the others are.

    Raises:
        InputError: the file cannot be read or is not SQuAD's, or no question can be trained on.
    """
    examples, source = _read(options, options.train_file, "train", labelled=True)
    _warn(describe_faults(examples, source, training=True))
    trainable = select_trainable(examples)
    if not trainable:
        raise InputError(f"{source}: none of {len(examples)} questions can be trained on")
    return trainable


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
    """Returns the examples, and what to call their source."""
    if options.data_source == "files":
        return read_squad(path, labelled), path
    builder = _TFDS_BUILDERS[options.version_2_with_negative]
    return read_squad_tfds(builder, split, options.data_dir), f"{builder}, {split}"


def _warn(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)


def make_features(
    options: QuestionAnsweringOptions, examples: Sequence[SquadExample], tokenizer: AlbertTokenizer
) -> Features:
    """Returns the windows to train on; makes them where `--features_dir` does not hold them."""
    shards = _make_shards(options, examples, tokenizer, "train", with_offsets=False)
    return read_features(shards, options.max_seq_length)


def make_windows(
    options: QuestionAnsweringOptions, examples: Sequence[SquadExample], tokenizer: AlbertTokenizer
) -> SquadWindows:
    """Returns the windows to answer; makes them where `--features_dir` does not hold them."""
    shards = _make_shards(options, examples, tokenizer, "predict", with_offsets=True)
    return read_windows(shards, options.max_seq_length)


def warn_of_long_answers(
    options: QuestionAnsweringOptions, examples: Sequence[SquadExample], windows: SquadWindows
) -> None:
    """Says on standard error how many questions `--max_answer_length` keeps from being answered right."""
    counts = count_answer_tokens(examples, windows)
    too_long = np.flatnonzero(counts > options.max_answer_length)
    if len(too_long):
        ids = show_ids([examples[index].id for index in too_long])
        _warn(
            [
                f"--max_answer_length={options.max_answer_length}: {len(too_long)} of {len(examples)} "
                f"questions to evaluate on have only longer answers, of up to {counts.max()} tokens, "
                f"and cannot be answered right ({ids})"
            ]
        )


def _make_shards(
    options: QuestionAnsweringOptions,
    examples: Sequence[SquadExample],
    tokenizer: AlbertTokenizer,
    name: str,
    with_offsets: bool,
) -> list[str]:
    # Files that are there are taken as they are, so their names tell what they were made of.
    content = hashlib.sha256(tokenizer.serialized_model)
    for part in (tokenizer.lower_case, options.window_config, with_offsets, *examples):
        content.update(repr(part).encode())
    prefix = os.path.join(options.features_dir, f"{name}-{content.hexdigest()[:16]}")
    shards = name_shards(prefix, len(examples))
    files.make_directory(options.features_dir)
    num_workers = options.num_workers or os.cpu_count()
    write_windows(
        examples, tokenizer, options.window_config, with_offsets, shards, num_workers=num_workers
    )
    return shards
