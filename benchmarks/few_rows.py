"""Trains `small_en` on a few rows with the plain command, next to what counting words gives.

Usage:
    python -m benchmarks.few_rows --data_dir=../shared/data/small

A set is a folder with `train.csv` and `test.csv`. Of n rows, `random.Random(sample).sample(rows, n)`, the
command gets a file and the name of the model alone, and is evaluated on `test.csv`. The baselines see the
same rows: TF-IDF of words and pairs of words with logistic regression, and logistic regression on
`small_en`'s embeddings. Each finished training adds a line to `--results`, and the same command runs the
missing ones sequentially on one core.
"""

import csv
import dataclasses
import functools
import itertools
import os
import pathlib
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import albert_tf
from albert_tf import command_line
from albert_tf.evaluation.metrics import METRICS
from albert_tf.options import option
from albert_tf.sources import find_model
from albert_tf.tasks.loaded import Loaded
from benchmarks.harness import check_choices, markdown_table
from benchmarks.trainings import (
    Line,
    Results,
    Run,
    TrainingsOptions,
    finish,
    weights_checksum,
)

_RESULTS = pathlib.Path(__file__).with_name("few_rows.jsonl")
_SETS = ("trec", "reviews", "films", "sms")
_METRICS = ("accuracy", "macro_f1")
_ALL = "all"
_PROGRAM = "plain command"
# Regularisation of logistic regression, see `../shared/data/small/PROVENANCE.md`.
_C_OF_WORDS, _C_OF_EMBEDDINGS = 10, 0.01

Rows = Sequence[tuple[str, str]]  # texts and labels


@dataclasses.dataclass(frozen=True, kw_only=True)
class FewRowsOptions(TrainingsOptions):
    """The options of this benchmark."""

    data_dir: str = option("Folder with a folder for each set.", "../shared/data/small")
    sets: tuple[str, ...] = option("Folders in --data_dir.", _SETS)
    rows: tuple[str, ...] = option(
        "Numbers of training rows; all for all.", ("100", "400", "2000", _ALL)
    )
    samples: int = option("Number of samples of each number of rows.", 3, least=1)
    flags: tuple[str, ...] = option(
        "Flags to add to the plain command, without dashes, to compare: learning_rate=1e-4.", ()
    )
    results: str = option("JSON lines of the finished trainings, which grow.", str(_RESULTS))

    def __post_init__(self):
        check_choices("rows", [name for name in self.rows if not name.isdigit()], [_ALL])
        super().__post_init__()


def read_rows(path: str) -> Rows:
    """Returns the rows of a CSV file with the columns `text` and `label`."""
    with open(path, encoding="utf-8", newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def draw(options: FewRowsOptions, name: str, rows: str, sample: int) -> Rows:
    """Returns a sample of the training rows of a set."""
    there = read_rows(os.path.join(options.data_dir, name, "train.csv"))
    if rows == _ALL or int(rows) >= len(there):
        return there
    return random.Random(sample).sample(there, int(rows))


def make_runs(options: FewRowsOptions) -> list[Run]:
    """Returns the trainings, sample by sample, and writes their files."""
    folder = pathlib.Path(options.work_dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for sample, rows, name in itertools.product(range(options.samples), options.rows, options.sets):
        path = folder / f"{name}-{rows}-{sample}.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *draw(options, name, rows, sample)])
        # Of all rows there is one sample, so the seed is another.
        flags = [*options.flags, *([f"random_seed={sample}"] if rows == _ALL else [])]
        command = [
            *("run_classifier.py", f"--train_file={path}"),
            f"--init_checkpoint={os.path.abspath(find_model(options.model))}",
            *(f"--{flag}" for flag in flags),
        ]
        test_file = os.path.abspath(os.path.join(options.data_dir, name, "test.csv"))
        evaluation = ["run_classifier.py", "--do_eval", f"--dev_file={test_file}"]
        key = {**_key(options, name, rows), "sample": sample}
        runs.append(Run(key, command, evaluation))
    return runs


def score_baselines(options: FewRowsOptions, name: str, rows: str) -> Iterator[list[Line]]:
    """Yields for each baseline the scores of all samples."""
    samples = [draw(options, name, rows, s) for s in range(1 if rows == _ALL else options.samples)]
    test = read_rows(os.path.join(options.data_dir, name, "test.csv"))
    embed = functools.partial(_embed, options.model)
    for model, encode in ((regression_on_words(), list), (regression_on_vectors(), embed)):
        yield [score(model, encode, sample, test) for sample in samples]


def regression_on_words() -> Any:
    """Returns logistic regression on TF-IDF of words and pairs of words, of scikit-learn."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=_C_OF_WORDS, max_iter=1000)
    )


def regression_on_vectors() -> Any:
    """Returns logistic regression on standardised embeddings, of scikit-learn."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=_C_OF_EMBEDDINGS, max_iter=1000))


def score(
    model: Any, encode: Callable[[tuple[str, ...]], Any], train: Rows, test: Rows
) -> dict[str, float]:
    """Returns accuracy and macro F1, on the test rows, of what learns from encoded texts."""
    texts, labels = zip(*train, strict=True)
    test_texts, test_labels = zip(*test, strict=True)
    predicted = model.fit(encode(texts), labels).predict(encode(test_texts))
    names = sorted({*labels, *test_labels})
    ids = [np.array([names.index(x) for x in each]) for each in (test_labels, predicted)]
    return {metric: float(METRICS[metric](*ids)) for metric in _METRICS}


@functools.cache
def _embedder(model: str) -> Loaded:
    return albert_tf.load(model)


@functools.cache
def _embed(model: str, texts: tuple[str, ...]) -> np.ndarray:
    return _embedder(model).embed(list(texts))


def table(options: FewRowsOptions, results: Results) -> str:
    """Returns means of accuracy and macro F1, in percent, of the lines that `options` name."""
    table_rows = []
    for rows, name in itertools.product(options.rows, options.sets):
        lines = results.find(_key(options, name, rows))
        found = [line["scores"] for line in lines if line["sample"] < options.samples]
        baselines = score_baselines(options, name, rows)
        cells = [_describe(scores) for scores in (found, *baselines)]
        table_rows.append([rows, name, *cells])
    header = ["rows", "set", _PROGRAM, "bag of words", "embeddings"]
    return markdown_table(header, table_rows, text_columns=2)


def _describe(scores: Sequence[Line]) -> str:
    """Returns means, and in brackets the least and the greatest accuracy of several samples."""
    if not scores:
        return ""
    percent = {name: [100 * each[name] for each in scores] for name in _METRICS}
    means = " / ".join(f"{statistics.mean(values):.1f}" for values in percent.values())
    of_samples = percent[_METRICS[0]]
    if len(of_samples) == 1:
        return means
    return f"{means} ({min(of_samples):.1f} to {max(of_samples):.1f})"


def _key(options: FewRowsOptions, name: str, rows: str) -> Line:
    """Returns what the lines of a cell share."""
    flags, weights = " ".join(options.flags), weights_checksum(options.model)
    return {"program": _PROGRAM, "set": name, "rows": rows, "flags": flags, "weights": weights}


def _main(options: FewRowsOptions) -> None:
    results = Results(options.results)
    if not options.report:
        finish(make_runs(options), results, options.work_dir)
    print(table(options, results))


if __name__ == "__main__":
    command_line.run(FewRowsOptions, _main)
