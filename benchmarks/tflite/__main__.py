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
import statistics
import tempfile
from collections.abc import Mapping, Sequence

import command_line
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.options import option
from benchmarks.candidates import check_candidates
from benchmarks.tables import markdown_table
from benchmarks.tflite.model_files import file_size, find_misses, write_files
from benchmarks.tflite.runtimes import CANDIDATES, SAVED_MODEL, start
from benchmarks.workers import Round, ratio, take_turns

_THREADS = (1, 2)
_HEADER = ("", "MB", "ms", f"times the {SAVED_MODEL}", "CPU ms", "peak MiB")

Rounds = Mapping[str, Sequence[Round]]


@dataclasses.dataclass(frozen=True)
class TfliteBenchmarkOptions:
    """The options of this benchmark."""

    preset: str = option("The model.", "base_v2")
    max_seq_length: int = option("Tokens of the text, none of them padding.", 128)
    candidates: tuple[str, ...] = option("What to time.", tuple(CANDIDATES))
    rounds: int = option("How often all candidates have their turn.", 5)
    steps: int = option("Texts of a turn.", 20)


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


def table(folder: str, results: Rounds) -> str:
    """Returns the table of a number of threads."""
    return markdown_table(_HEADER, [_cells(folder, results, name) for name in results])


def _cells(folder: str, results: Rounds, name: str) -> list[str]:
    rounds = results[name]
    return [
        name,
        f"{file_size(f'{folder}/{CANDIDATES[name].file}') / 1e6:.1f}",
        f"{1000 * statistics.median(one.seconds for one in rounds):,.1f}",
        f"{ratio(results, name, SAVED_MODEL):.2f}" if SAVED_MODEL in results else "",
        f"{1000 * statistics.median(one.cpu_seconds for one in rounds):,.1f}",
        f"{rounds[-1].peak_mib:,.0f}",
    ]


def _main(options: TfliteBenchmarkOptions) -> None:
    check_candidates(CANDIDATES, options.candidates)
    config = AlbertConfig.from_preset(options.preset)
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
