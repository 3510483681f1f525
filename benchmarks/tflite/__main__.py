"""Times one text on LiteRT, with weights in float32, float16 and int8, against its SavedModel.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.tflite

All candidates of a number of threads work in turn, round after round, each in a process of its own; a
ratio is the median of the ratios within a round. Peak memory is the resident set of the whole process,
TensorFlow or LiteRT included. Weights are random: neither size nor time depends on them.

The command fails where a .tflite file is larger than its weights by more than 2 %.
"""

import dataclasses
import functools
import os
import pathlib
import statistics
import tempfile
import typing
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

import command_line
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.signatures import IdsModel, class_outputs
from albert_tf.export.tflite import Weights, write_tflite
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.options import option
from benchmarks.candidates import check_candidates
from benchmarks.tables import markdown_table
from benchmarks.tflite.runtimes import CANDIDATES, SAVED_MODEL, start
from benchmarks.workers import Round, ratio, take_turns

_LABELS = ("0", "1")
_BYTES = {"float32": 4, "float16": 2, "int8": 1}
# Times the bytes of the weights.
_LARGEST_SIZE = 1.02
_HEADER = ("", "MB", "ms", f"times the {SAVED_MODEL}", "CPU ms", "peak MiB")

Rounds = Mapping[str, Sequence[Round]]


@dataclasses.dataclass(frozen=True)
class TfliteBenchmarkOptions:
    """The options of this benchmark."""

    preset: str = option("The model.", "base_v2")
    max_seq_length: int = option("Tokens of the text, none of them padding.", 128)
    threads: tuple[str, ...] = option("Numbers of threads.", ("1", "2"))
    candidates: tuple[str, ...] = option("What to time.", tuple(CANDIDATES))
    rounds: int = option("How often all candidates have their turn.", 5)
    steps: int = option("Texts of a turn.", 20)


def write_files(config: AlbertConfig, max_seq_length: int, folder: str) -> int:
    """Writes a classifier in all its forms and returns its number of parameters.

    Args:
        config: of the encoder.
        max_seq_length: S of the .tflite files.
        folder: where to.
    """
    model = AlbertClassifier(AlbertEncoder(config, seed=0), len(_LABELS), seed=1)
    outputs = class_outputs(_LABELS)
    ids_model = IdsModel(model, outputs)
    tf.saved_model.save(
        ids_model, os.path.join(folder, SAVED_MODEL), signatures=ids_model.signature
    )
    for weights in typing.get_args(Weights):
        path = os.path.join(folder, f"{weights}.tflite")
        write_tflite(model, outputs, path, weights, max_seq_length)
    return model.count_params()


def measure(
    folder: str, config: AlbertConfig, threads: int, options: TfliteBenchmarkOptions
) -> dict[str, list[Round]]:
    """Runs all candidates in turn and returns the rounds of each.

    Args:
        folder: what `write_files` wrote.
        config: of the encoder.
        threads: that one operator may use.
        options: what to time, and how often.
    """
    starts = {
        name: functools.partial(
            start, name, folder, config.vocab_size, options.max_seq_length, threads
        )
        for name in options.candidates
    }
    return take_turns(starts, options.rounds, options.steps)


def find_misses(folder: str, parameters: int) -> Iterator[str]:
    """Yields a sentence for each .tflite file that is too large.

    Args:
        folder: what `write_files` wrote.
        parameters: of the model.
    """
    for weights, size in _BYTES.items():
        times = _size(f"{folder}/{weights}.tflite") / (size * parameters)
        if times > _LARGEST_SIZE:
            yield f"{weights}.tflite is {times:.3f} times as large as its weights"


def table(folder: str, results: Rounds) -> str:
    """Returns the table of a number of threads."""
    return markdown_table(_HEADER, [_cells(folder, results, name) for name in results])


def _cells(folder: str, results: Rounds, name: str) -> list[str]:
    rounds = results[name]
    return [
        name,
        f"{_size(f'{folder}/{CANDIDATES[name].file}') / 1e6:.1f}",
        f"{1000 * statistics.median(one.seconds for one in rounds):,.1f}",
        f"{ratio(results, name, SAVED_MODEL):.2f}" if SAVED_MODEL in results else "",
        f"{1000 * statistics.median(one.cpu_seconds for one in rounds):,.1f}",
        f"{rounds[-1].peak_mib:,.0f}",
    ]


def _size(path: str) -> int:
    """Returns the bytes of a file, or of all files in a folder."""
    files = [pathlib.Path(path), *pathlib.Path(path).rglob("*")]
    return sum(file.stat().st_size for file in files if file.is_file())


def _main(options: TfliteBenchmarkOptions) -> None:
    check_candidates(CANDIDATES, options.candidates)
    config = AlbertConfig.from_preset(options.preset)
    with tempfile.TemporaryDirectory() as folder:
        parameters = write_files(config, options.max_seq_length, folder)
        for threads in map(int, options.threads):
            results = measure(folder, config, threads, options)
            title = f"{options.preset}, {options.max_seq_length} tokens, threads: {threads}"
            print(f"{title}\n\n{table(folder, results)}\n", flush=True)
        misses = list(find_misses(folder, parameters))
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(TfliteBenchmarkOptions, _main)
