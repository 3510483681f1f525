"""Loads the pre-trained model that a benchmark looks at, and reads the texts."""

import dataclasses
from collections.abc import Iterator, Sequence

import keras

from albert_tf import files
from albert_tf.conversion import load_model
from albert_tf.data.pretraining.input_files import decompress, find_files
from albert_tf.errors import InputError, name_place
from albert_tf.sources import find_model
from albert_tf.tasks.conversion import CheckpointOptions, find_companions
from albert_tf.tokenization import Tokenizer


def load_pretrained(options: CheckpointOptions) -> tuple[keras.Model, Tokenizer]:
    """Loads a model as `albert_tf.load` names it, with the heads that it has, and its tokenizer."""
    with name_place("--init_checkpoint"):
        options = dataclasses.replace(options, init_checkpoint=find_model(options.init_checkpoint))
    config, tokenizer = find_companions(options)
    if tokenizer is None:
        raise InputError(
            "expected --spm_model_file or --vocab_file; there is no vocabulary next to "
            f"--init_checkpoint={options.init_checkpoint}"
        )
    with name_place("--init_checkpoint"):
        model, _ = load_model(config, options.init_checkpoint)
    return model, tokenizer


def read_lines(patterns: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yields the lines of UTF-8 files, also compressed, with their file and number.

    Raises:
        InputError: a pattern matches no file, a file cannot be read, or a line is not UTF-8.
    """
    for path in (file.path for file in find_files(patterns)):
        content = decompress(files.read_chunks(path), path)
        for number, line in files.decode_lines(content, path, files.decode_strictly):
            yield path, number, line
