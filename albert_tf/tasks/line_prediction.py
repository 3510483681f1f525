"""Predictions for use in a pipe: a line in, a line out."""

import sys
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.data.pipeline import make_batch
from albert_tf.errors import InputError
from albert_tf.tasks.classification_options import ClassificationOptions
from albert_tf.tasks.kinds import KINDS
from albert_tf.tasks.trained_folder import LabelMetadata
from albert_tf.tokenization import Tokenizer

STANDARD_INPUT = "-"


def check_lines(options: ClassificationOptions) -> None:
    """Checks that `--predict_file`, which is read last, is there.

    Raises:
        InputError: it is not.
    """
    path = options.predict_file
    if path not in (None, STANDARD_INPUT) and not tf.io.gfile.exists(path):
        raise InputError(f"--predict_file: no file '{path}'; - is standard input")


def predict_lines(
    options: ClassificationOptions, head: LabelMetadata, model: keras.Model, tokenizer: Tokenizer
) -> None:
    """Answers each line of `--predict_file` with one on standard output, before it reads the next.

    A line in is the texts, with tabs between them; a line out is the prediction and, of classes, the
    probability of each, with tabs between them.

    A line that cannot be answered is named on standard error and has an empty line on standard output.

    Raises:
        InputError: the file cannot be read; or, at the end, some lines had no answer, because they are
            not UTF-8, have another number of texts or an empty one.
    """
    kind = KINDS[head.kind]
    predict = tf.function(lambda batch: model(batch, training=False), reduce_retracing=True)
    count = unanswered = 0
    for place, line in _lines(options.predict_file):
        count += 1
        try:
            example = _read_example(place, line, head)
        except InputError as error:
            unanswered += 1
            print(f"error: {error}; its answer is an empty line", file=sys.stderr)
            print(flush=True)
            continue
        features = kind.encode([example], head.accepted_labels, tokenizer, options)
        batch = tf.nest.map_structure(tf.constant, make_batch(features, np.array([0])))
        outputs = kind.outputs(predict(batch).numpy())
        (name,) = kind.names(kind.predictions(outputs), head)
        shown = [f"{value:.6f}" for value in outputs[0][: len(kind.output_columns(head))]]
        print("\t".join([name, *shown]), flush=True)
    if unanswered:
        raise InputError(
            f"--predict_file={options.predict_file}: {unanswered} of {count} lines could not be answered"
        )


def _lines(path: str) -> Iterator[tuple[str, str]]:
    """Yields (where it is, line); bytes that are not UTF-8 become surrogates."""
    is_pipe = path == STANDARD_INPUT
    name = "standard input" if is_pipe else path
    chunks = sys.stdin.buffer if is_pipe else files.read_chunks(path)

    def decode(line: bytes, _: str) -> str:
        return line.decode("utf-8", "surrogateescape")

    for number, line in files.decode_lines(chunks, name, decode):
        yield f"{name}, line {number}", line


def _read_example(place: str, line: str, head: LabelMetadata) -> Example:
    kind = KINDS[head.kind]
    files.decode_strictly(line.encode("utf-8", "surrogateescape"), place)
    fields = line.split("\t")
    example = kind.example_of_line(fields, head)
    if example is None:
        raise InputError(
            f"{place}: received {len(fields)} texts; expected {kind.line_format(head)}"
        )
    if not example.text_a.strip():
        raise InputError(f"{place}: the text is empty")
    if not all(choice.strip() for choice in example.choices or ()):
        raise InputError(f"{place}: a choice is empty")
    return example
