"""Predictions for use in a pipe: one line of output for each line of input."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.errors import InputError

STANDARD_INPUT = "-"


def check_lines(path: str | None) -> None:
    """Checks that `--predict_file`, which is read last, exists.

    Raises:
        InputError: it does not.
    """
    if path not in (None, STANDARD_INPUT) and not tf.io.gfile.exists(path):
        raise InputError(f"--predict_file: no file '{path}'; - is standard input")


def predict_lines(task: Any, model: keras.Model) -> None:
    """Answers each line of `--predict_file` on standard output before it reads the next one.

    A line of input holds the texts, separated by tabs. A line that cannot be answered is named on
    standard error and has an empty line on standard output.

    Args:
        task: the `LabelledTask`.
        model: its model.

    Raises:
        InputError: the file cannot be read; or, at the end, some lines were not answered, because they
            are not UTF-8, have a wrong number of texts or an empty one.
    """
    path = task.options.predict_file
    graph = tf.function(lambda batch: model(batch, training=False), reduce_retracing=True)

    def predict(batch: Mapping[str, np.ndarray]) -> np.ndarray:
        outputs = graph(tf.nest.map_structure(tf.constant, batch))
        return tf.nest.map_structure(lambda output: output.numpy(), outputs)

    count = unanswered = 0
    for place, line in _lines(path):
        count += 1
        try:
            example = _read_example(place, line, task)
        except InputError as error:
            unanswered += 1
            print(f"error: {error}; its answer is an empty line", file=sys.stderr)
            print(flush=True)
            continue
        print(task.answer(example, predict), flush=True)
    if unanswered:
        raise InputError(
            f"--predict_file={path}: {unanswered} of {count} lines could not be answered"
        )


def _lines(path: str) -> Iterator[tuple[str, str]]:
    """Yields (place, line); bytes that are not UTF-8 become surrogates."""
    is_pipe = path == STANDARD_INPUT
    name = "standard input" if is_pipe else path
    chunks = sys.stdin.buffer if is_pipe else files.read_chunks(path)

    def decode(line: bytes, _: str) -> str:
        return line.decode("utf-8", "surrogateescape")

    for number, line in files.decode_lines(chunks, name, decode):
        yield f"{name}, line {number}", line


def _read_example(place: str, line: str, task: Any) -> Example:
    files.decode_strictly(line.encode("utf-8", "surrogateescape"), place)
    fields = line.split("\t")
    example = task.example_of_line(fields)
    if example is None:
        raise InputError(f"{place}: received {len(fields)} texts; expected {task.line_format}")
    if not example.text_a.strip():
        raise InputError(f"{place}: the text is empty")
    if not all(choice.strip() for choice in example.choices or ()):
        raise InputError(f"{place}: a choice is empty")
    return example
