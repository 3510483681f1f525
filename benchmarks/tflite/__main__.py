"""Times one text on LiteRT, with weights in float32, float16 and int8, next to its SavedModel.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.tflite

All candidates take turns, each in a process of its own; ratios are medians of the ratios within a round.
Peak memory is the resident set of the whole process, TensorFlow or LiteRT included. Weights are random:
neither size nor time depends on them.

The command fails if a .tflite file is larger than its weights by more than 2 %.
"""

import dataclasses
import os
import pathlib
import tempfile
import typing
from collections.abc import Iterator

import tensorflow as tf

import command_line
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.signatures import IdsModel, class_outputs
from albert_tf.export.tflite import WeightType, write_tflite
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.options import option
from benchmarks.harness import (
    Rounds,
    check_candidates,
    markdown_table,
    median,
    processor,
    ratio,
    take_turns,
)
from benchmarks.tflite.candidates import CANDIDATES, SAVED_MODEL

_LABELS = ("0", "1")
_BYTES = {"float32": 4, "float16": 2, "int8": 1}
# How many times as large as its weights a file may be.
_LARGEST_SIZE = 1.02
_THREADS = (1, 2)
_HEADER = ("", "MB", "ms", f"times the {SAVED_MODEL}", "CPU ms", "peak MiB")


@dataclasses.dataclass(frozen=True)
class TfliteBenchmarkOptions:
    """The options of this benchmark."""

    preset: str = option("Size of the model.", "base_v2")
    max_seq_length: int = option("Tokens of the text, none of them padding.", 128)
    candidates: tuple[str, ...] = option("Candidates to time.", tuple(CANDIDATES))
    rounds: int = option("Number of turns of each candidate.", 5)
    steps: int = option("Texts of a turn.", 20)


def write_files(config: AlbertConfig, max_seq_length: int, folder: str) -> int:
    """Writes a classifier in all its forms and returns its number of parameters."""
    model = AlbertClassifier(AlbertEncoder(config, seed=0), len(_LABELS), seed=1)
    outputs = class_outputs(_LABELS)
    ids_model = IdsModel(model, outputs)
    tf.saved_model.save(
        ids_model, os.path.join(folder, SAVED_MODEL), signatures=ids_model.signature
    )
    for weights in typing.get_args(WeightType):
        path = os.path.join(folder, f"{weights}.tflite")
        write_tflite(model, outputs, path, weights, max_seq_length)
    return model.count_params()


def file_size(path: str) -> int:
    """Returns the bytes of a file, or of all files in a folder."""
    files = [pathlib.Path(path), *pathlib.Path(path).rglob("*")]
    return sum(file.stat().st_size for file in files if file.is_file())


def find_misses(folder: str, parameters: int) -> Iterator[str]:
    """Yields a sentence for each .tflite file that is too large."""
    for weights, size in _BYTES.items():
        times = file_size(f"{folder}/{weights}.tflite") / (size * parameters)
        if times > _LARGEST_SIZE:
            yield f"{weights}.tflite is {times:.3f} times as large as its weights"


def measure(
    folder: str, config: AlbertConfig, threads: int, options: TfliteBenchmarkOptions
) -> dict[str, list]:
    """Runs the candidates in turn, with the files that `write_files` wrote."""
    arguments = {
        "folder": folder,
        "vocab_size": config.vocab_size,
        "length": options.max_seq_length,
        "threads": threads,
    }
    given = dict.fromkeys(options.candidates, arguments)
    return take_turns("benchmarks.tflite.candidates", given, options.rounds, options.steps)


def table(folder: str, results: Rounds) -> str:
    """Returns the table of a number of threads."""
    rows = []
    for name, rounds in results.items():
        file = CANDIDATES[name].arguments["file"]
        rows.append(
            [
                name,
                f"{file_size(f'{folder}/{file}') / 1e6:.1f}",
                f"{1000 * median(rounds):,.1f}",
                f"{ratio(results, name, SAVED_MODEL):.2f}" if SAVED_MODEL in results else "",
                f"{1000 * median(rounds, 'cpu_seconds'):,.1f}",
                f"{rounds[-1].peak_mib:,.0f}",
            ]
        )
    return markdown_table(_HEADER, rows)


def _main(options: TfliteBenchmarkOptions) -> None:
    check_candidates(CANDIDATES, options.candidates)
    config = AlbertConfig.from_preset(options.preset)
    print(f"{processor()}\n")
    with tempfile.TemporaryDirectory() as folder:
        parameters = write_files(config, options.max_seq_length, folder)
        for threads in _THREADS:
            results = measure(folder, config, threads, options)
            title = f"{options.preset}, {options.max_seq_length} tokens, threads: {threads}"
            print(f"{title}\n\n{table(folder, results)}\n", flush=True)
        misses = list(find_misses(folder, parameters))
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(TfliteBenchmarkOptions, _main)
