"""What a run predicts: metrics and files of dev and test sets, and answers to lines of text."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.data.fine_tuning import conll
from albert_tf.data.fine_tuning.cells import answer_rows, as_cell, to_rows
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.columns import hide_labels
from albert_tf.data.fine_tuning.examples import ScoreRange
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.tables import Table, is_table
from albert_tf.data.fine_tuning.task_table import Task
from albert_tf.data.source_files import suffix_of
from albert_tf.errors import InputError, name_place
from albert_tf.file_kinds import decompress
from albert_tf.kinds import Kind, Quality
from albert_tf.kinds.kind import open_source
from albert_tf.options import select
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.prediction import predict
from albert_tf.tasks.training_options import fixed_length
from albert_tf.tasks.vocabulary import warn_of_unknown, warn_of_unknown_text
from albert_tf.tokenization import Tokenizer
from albert_tf.training import Evaluator

STANDARD_INPUT = "-"


class ExampleSet(NamedTuple):
    """One set of a split."""

    name: str  # e.g. `matched`; empty for the only set of a split
    examples: list[Any]
    features: Features

    @property
    def prefix(self) -> str:
        """Prefix of the names of its metrics."""
        return f"{self.name}_" if self.name else ""

    def suffixed(self, name: str) -> str:
        """Returns the name of a file of the set."""
        return f"{name}_{self.name}" if self.name else name


def predict_sets(
    kind: Kind, sets: Sequence[ExampleSet], evaluator: Evaluator, options: FineTuningOptions
) -> list[Any]:
    """Returns the predictions of a model for each set."""
    how = options.eval_batch_size, fixed_length(options)
    return [predict(kind, evaluator, dataset.examples, dataset.features, *how) for dataset in sets]


def measure_sets(
    kind: Kind, sets: Sequence[ExampleSet], predictions: Sequence[Any]
) -> tuple[dict[str, float], list[Quality]]:
    """Returns the metrics of all sets and of their subsets, and the quality for each set."""
    metrics: dict[str, float] = {}
    qualities = []
    for dataset, predicted in zip(sets, predictions, strict=True):
        quality = kind.measure(dataset.examples, predicted)
        values = quality.metrics | _measure_subsets(kind, dataset.examples, predicted)
        metrics |= {dataset.prefix + name: value for name, value in values.items()}
        qualities.append(quality)
    return metrics, qualities


def _measure_subsets(
    kind: Kind, examples: Sequence[Any], predictions: np.ndarray
) -> dict[str, float]:
    subset_of_row = np.array([getattr(example, "subset", "") for example in examples])
    subsets = np.unique(subset_of_row)
    results: dict[str, float] = {}
    for subset in subsets if len(subsets) > 1 else ():
        rows = np.flatnonzero(subset_of_row == subset)
        values = kind.measure([examples[row] for row in rows.tolist()], predictions[rows]).metrics
        results |= {f"{subset}_{name}": values[name] for name in kind.metrics}
    return results


def write_predictions(
    kind: Kind, output_dir: str, name: str, examples: ExampleSet, predictions: Any
) -> str:
    """Writes the files of predictions and returns the first one."""
    contents = kind.prediction_files(examples.suffixed(name), examples.examples, predictions)
    paths = [os.path.join(output_dir, file) for file in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        files.write_text(path, content)
    return paths[0]


def write_scores(quality: Quality, output_dir: str, examples: ExampleSet) -> None:
    """Writes how well each label is predicted."""
    for name, make in quality.tables.items():
        stem, end = os.path.splitext(name)
        files.write_text(os.path.join(output_dir, examples.suffixed(stem) + end), make())


def write_submission(
    output_dir: str, task: Task, set_name: str, examples: Sequence[Any], names: Sequence[str]
) -> str:
    """Writes predictions in the leaderboard's format, and returns the file."""
    submission = task.submissions[set_name]
    path = os.path.join(output_dir, submission.file)
    if isinstance(task.labels, ScoreRange):
        limits = task.labels.least, task.labels.greatest
        names = [f"{np.clip(float(name), *limits):.6f}" for name in names]
    files.write_text(path, submission.write([example.guid for example in examples], names))
    return path


def check_lines(path: str | None) -> None:
    """Checks that `--predict_file`, which is read last, exists."""
    if path not in (None, STANDARD_INPUT) and not files.exists(path):
        raise InputError(f"--predict_file: no file '{path}'; - is standard input")


def predict_file(options: Any, kind: Kind, tokenizer: Tokenizer, evaluator: Evaluator) -> None:
    """Answers `--predict_file` on standard output, as TSV with a header row or as JSON lines.

    A table has an answer for each row, and a CoNLL file for each text. Otherwise each line is answered
    before the next one is read: it holds the texts, separated by tabs. A line that cannot be answered is
    named on standard error. Its answer, and that of a row without a text, is an empty line or, in JSON,
    null.
    """
    path, is_tsv = options.predict_file, options.predict_format == "tsv"
    if path != STANDARD_INPUT and (is_table(path) or suffix_of(path) in conll.SUFFIXES):
        table = open_source(
            kind,
            source=path,
            split="test",
            names=select(options, ColumnNames),
            columns=kind.columns,
        )
        if isinstance(table, Table):
            table = hide_labels(table)
        examples = kind.read(table, "test")
        dataset = ExampleSet("", examples, kind.encode(examples, tokenizer))
        warn_of_unknown_text(dataset.features, f"--predict_file={path}", tokenizer)
        columns = kind.answers(
            examples, *predict_sets(kind, sets=[dataset], evaluator=evaluator, options=options)
        )
        answers = answer_rows(examples, columns)
    else:
        answers = _answer_lines(
            path, kind, tokenizer, evaluator, batch_size=options.eval_batch_size
        )
        if is_tsv:  # the header row comes before the first line is read
            columns = kind.answers([], predict(kind, evaluator, [], kind.encode([], tokenizer), 1))
    if is_tsv:
        print("\t".join(map(as_cell, columns)), flush=True)
    for answer in answers:
        cells = (as_cell(value, ".6f") for value in (answer or {}).values())
        print("\t".join(cells) if is_tsv else json.dumps(answer, ensure_ascii=False), flush=True)


def _answer_lines(
    path: str, kind: Kind, tokenizer: Tokenizer, evaluator: Evaluator, batch_size: int
) -> Iterator[dict[str, Any] | None]:
    """Yields the answers to lines; after the last one an `InputError` counts those without one."""
    unknown = pieces = count = unanswered = 0
    for place, line in _lines(path):
        answer = None
        count += 1
        try:
            files.decode_strictly(line.encode("utf-8", "surrogateescape"), place)
            with name_place(place):
                example = kind.example_of_line(line.split("\t"))
                features = kind.encode([example], tokenizer)
                unknown += int(np.count_nonzero(features.input_ids == tokenizer.unk_id))
                pieces += len(features.input_ids)
                predictions = predict(kind, evaluator, [example], features, batch_size)
                (answer,) = to_rows(kind.answers([example], predictions))
        except InputError as error:
            print(f"error: {error}; it has no answer", file=sys.stderr)
            unanswered += 1
        yield answer
    how = tokenizer.vocabulary_file, tokenizer.lower_case
    warn_of_unknown(unknown, pieces, f"--predict_file={path}", *how)
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

    for number, line in files.decode_lines(decompress(chunks, name), name, decode):
        yield f"{name}, line {number}", line
