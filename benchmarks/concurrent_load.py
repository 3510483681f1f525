"""Measures how long answers take when several clients share an exported model.

Usage:
    python -m benchmarks.concurrent_load --input_file=glue/SST-2/dev.tsv --spm_model_file=30k-clean.model

The program in examples/cpp_client, built with g++, loads a classifier of random weights as TensorFlow
Serving does. Each client is a thread that sends one sentence at a time, at a fixed rate; all share the
model. The latency of a sentence counts from the time when it was due, so it includes waiting for the
client's earlier sentences.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from albert_tf import command_line
from albert_tf.errors import FlagError, StoppedError
from albert_tf.options import option
from benchmarks.harness import markdown_table, processor
from benchmarks.serving.__main__ import ServedModelOptions, write_folder
from benchmarks.serving.candidates import OURS

_CLIENT = pathlib.Path(__file__).parents[1] / "examples/cpp_client"
_HEADER = ("clients", "requests/s", "answers/s", "50 %, ms", "99 %, ms")


@dataclasses.dataclass(frozen=True)
class ConcurrentLoadOptions(ServedModelOptions):
    """The options of this benchmark."""

    num_sentences: int = option("Number of sentences for each number of clients.", 300, least=1)
    clients: tuple[str, ...] = option("Numbers of clients.", ("1", "2", "4", "8"))
    rate: float = option("Requests of each client per second.", 2.0)

    def __post_init__(self):
        super().__post_init__()
        if self.rate <= 0:
            raise FlagError(f"--rate: received {self.rate}; expected a positive number")
        for count in self.clients:
            if not count.isdecimal() or int(count) == 0:
                raise FlagError(f"--clients: received '{count}'; expected a positive integer")


def build_client(folder: str) -> list[str]:
    """Builds `client` in a folder, and returns the libraries with TensorFlow Text's operators.

    Raises:
        StoppedError: `g++` or `make` is missing or fails.
    """
    for name in ("main.cc", "Makefile"):
        shutil.copy(_CLIENT / name, folder)
    make = ["make", "-s", "-C", folder, f"PYTHON={sys.executable}"]
    try:
        subprocess.run([*make, "client"], check=True, capture_output=True)
        operators = subprocess.run([*make, "operators"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StoppedError(f"{_CLIENT}: cannot be built: {error}") from None
    return operators.stdout.split()


def measure(
    client: str, operators: list[str], model: str, texts: list[str], clients: int, rate: float
) -> dict[str, float]:
    """Runs the client once.

    Args:
        client: the built program.
        operators: libraries with the operators of the model.
        model: folder of the SavedModel.
        texts: one for each request.
        clients: number of threads.
        rate: requests of each thread per second.

    Returns:
        `answers_per_second`, and the latencies `p50_ms` and `p99_ms`.

    Raises:
        StoppedError: the client failed.
    """
    done = subprocess.run(
        [client, f"--clients={clients}", f"--rate={rate}", model, *operators],
        input="".join(f"{text}\n" for text in texts),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise StoppedError(f"{client}: {done.stderr.splitlines()[-1]}")
    return json.loads(done.stdout)


def _main(options: ConcurrentLoadOptions) -> None:
    texts, config = options.read_texts(), options.config()
    print(f"{processor()}\n")
    with tempfile.TemporaryDirectory() as folder:
        operators = build_client(folder)
        write_folder(config, texts, [OURS], options.precisions, folder, options.spm_model_file)
        for precision in options.precisions:
            rows = []
            for count in map(int, options.clients):
                result = measure(
                    os.path.join(folder, "client"),
                    operators,
                    os.path.join(folder, precision, "text/1"),
                    texts,
                    count,
                    options.rate,
                )
                rows.append([str(count), f"{count * options.rate:g}"])
                rows[-1].extend(f"{value:.1f}" for value in result.values())
            print(f"{options.preset}, {precision}, {len(texts)} sentences\n")
            print(markdown_table(_HEADER, rows), end="\n\n", flush=True)


if __name__ == "__main__":
    command_line.run(ConcurrentLoadOptions, _main)
