"""Windows per second, CPU seconds and memory of the conversion, in turns with the original's.

The file is repeated until there are as many questions as SQuAD 2.0 has for training. Every copy of a
passage is tokenised anew; a passage of the dev set has 9.4 questions, where one of the training set has
6.9. Seconds are those of the conversion: imports and reading the file are left out, as they are of the
original's figure, and starting workers and writing the records is in them. CPU seconds are all that all
processes took, imports too.
"""

import json
import math
import pathlib
import statistics
import sys
import tempfile

from benchmarks.harness import Usage, watch
from benchmarks.original import run_original

# Of the original's `convert_examples_to_features`, one process.
ORIGINAL_QUESTIONS = 1500

# How many times as fast as the original any number of workers has to be.
GOAL = 10

WORKERS = (1, 2)
HEADER = (
    *("workers", "questions", "windows", "seconds", "windows/s", "x original", "CPU s"),
    *("peak MiB", "worker MiB", "reading s"),
)
_STYLES = {
    "questions": ",.0f",
    "windows": ",.0f",
    "seconds": ".1f",
    "rate": ",.0f",
    "faster": ".0f",
    "cpu": ".1f",
    "peak_mib": ",.0f",
    "worker_mib": ",.0f",
    "reading": ".1f",
}


def measure(
    input_file: str, spm_model_file: str, num_questions: int, original_dir: str | None, rounds: int
) -> tuple[list[list[str]], bool]:
    """Returns the rows of the table, medians, and whether each is as fast as it has to be.

    Args:
        input_file: a file of SQuAD.
        spm_model_file: the vocabulary.
        num_questions: how many questions ours converts.
        original_dir: a clone of the original, which converts fewer of the same file; None for none.
        rounds: how many turns each has.
    """
    results: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        original_rate = math.nan
        if original_dir:
            took = run_original(
                original_dir, "squad", input_file, spm_model_file, str(ORIGINAL_QUESTIONS)
            )
            original_rate = took["windows"] / took["seconds"]
            results.setdefault("original", []).append(
                {
                    "questions": ORIGINAL_QUESTIONS,
                    "windows": took["windows"],
                    "seconds": took["seconds"],
                    "rate": original_rate,
                    "faster": 1.0,
                    "cpu": took["cpu_seconds"],
                    "peak_mib": took["peak_mib"],
                    "worker_mib": 0.0,
                    "reading": math.nan,
                }
            )
        for num_workers in WORKERS:
            took, usage = _convert(input_file, spm_model_file, num_questions, num_workers)
            rate = took["windows"] / took["writing"]
            results.setdefault(str(num_workers), []).append(
                {
                    "questions": num_questions,
                    "windows": took["windows"],
                    "seconds": took["writing"],
                    "rate": rate,
                    "faster": rate / original_rate,
                    "cpu": usage.all_cpu_seconds,
                    "peak_mib": usage.peak_mib,
                    "worker_mib": usage.worker_mib,
                    "reading": took["reading"],
                }
            )
    medians = {
        name: {key: statistics.median(one[key] for one in measured) for key in measured[0]}
        for name, measured in results.items()
    }
    rows = [
        [name, *(format(median[key], style).replace("nan", "") for key, style in _STYLES.items())]
        for name, median in medians.items()
    ]
    return rows, not any(medians[str(num_workers)]["faster"] < GOAL for num_workers in WORKERS)


def _convert(
    input_file: str, spm_model_file: str, num_questions: int, num_workers: int
) -> tuple[dict[str, float], Usage]:
    command = [
        *(sys.executable, "-m", "benchmarks.squad.conversion"),
        f"--input_file={input_file}",
        f"--spm_model_file={spm_model_file}",
        f"--num_questions={num_questions}",
        f"--num_workers={num_workers}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/took.json"
        usage = watch(command, output)
        return json.loads(pathlib.Path(output).read_text()), usage
