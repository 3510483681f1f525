"""Windows per second, CPU seconds and memory of the conversion, beside the original's.

The file is repeated until there are as many questions as SQuAD 2.0 has for training. Every copy of a
passage is tokenised anew; a passage of the dev set has 9.4 questions, where one of the training set has
6.9. Seconds are those of the conversion: imports and reading the file are left out, as they are of the
original's figure, and starting workers and writing the records is in them. CPU seconds are all that all
processes took, imports too.
"""

import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Sequence

from benchmarks.processes import watch

# `convert_examples_to_features` of the original, as tf-models-official 2.20 keeps it in
# `official/nlp/data/squad_lib_sp.py`: 1,500 questions of the same file, drawn at random, length 384,
# stride 128, in one process, nothing written. 1,572 windows took 20.7 CPU seconds on a core of the same
# kind.
ORIGINAL_WINDOWS_PER_SECOND = 76
# Of it, before it has converted anything.
ORIGINAL_PEAK_MIB = 665

# How many times as fast as the original any number of workers has to be.
GOAL = 10

WORKERS = (1, 2)
HEADER = (
    *("workers", "questions", "windows", "seconds", "windows/s", "x original", "CPU s"),
    *("windows/CPU s", "peak MiB", "worker MiB", "reading s", "load"),
)


def measure(
    input_file: str, spm_model_file: str, num_questions: int
) -> Iterator[tuple[Sequence[str], bool]]:
    """Yields a row of the table for each number of workers, and whether it is as fast as it has to be."""
    for num_workers in WORKERS:
        command = [
            *(sys.executable, "-m", "benchmarks.squad.conversion"),
            f"--input_file={input_file}",
            f"--spm_model_file={spm_model_file}",
            f"--num_questions={num_questions}",
            f"--num_workers={num_workers}",
        ]
        with tempfile.TemporaryDirectory() as folder:
            output = f"{folder}/took.json"
            _, usage = watch(command, output)
            took = json.loads(pathlib.Path(output).read_text())
        rate = took["windows"] / took["writing"]
        faster = rate / ORIGINAL_WINDOWS_PER_SECOND
        numbers = [
            (num_workers, "d"),
            (num_questions, ",d"),
            (took["windows"], ",d"),
            (took["writing"], ".1f"),
            (rate, ",.0f"),
            (faster, ".0f"),
            (usage.all_cpu_seconds, ".1f"),
            (took["windows"] / usage.all_cpu_seconds, ",.0f"),
            (usage.peak_mib, ",.0f"),
            (usage.worker_mib, ",.0f"),
            (took["reading"], ".1f"),
            (os.getloadavg()[0], ".1f"),
        ]
        yield [format(number, style) for number, style in numbers], faster >= GOAL
