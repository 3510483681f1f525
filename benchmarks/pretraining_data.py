"""How fast pre-training data is made, beside the original, in how much memory, and where the time goes.

    python -m benchmarks.pretraining_data --text=books --model=30k-clean.model --original_dir=../albert

Each line is the median of some runs of `create_pretraining_data.py`. Seconds and CPU seconds are all that
it took; the rate leaves out what a run with nothing to do takes, since the original's rate leaves its
start-up out, too. What workers take to start is in it. Tokens are those in the instances, special pieces
included. CPU seconds are those of all processes; on a machine that does other things, too, they say more
than the clock. Memory is the largest sum over all processes of the run, pages that they share counted
once (PSS); a worker's is its own, the imports left out, and 0 where one process does all.

With a clone of github.com/google-research/albert in `--original_dir`, the original makes data from the
beginning of the same text, in turns with ours and with the same number of copies; it needs `six`.
Its rate does not depend on how long the text is. Without it, no ratio is shown and none is a goal.
"""

import argparse
import dataclasses
import itertools
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.data.pretraining.corpus import CorpusConfig, CorpusReader
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.data.pretraining.instances import ChunkMaker, PretrainingDataConfig
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.data.pretraining.shuffling import KeyedRecord, RunWriter, read_sorted
from albert_tf.data.pretraining.statistics import PretrainingDataStats
from albert_tf.data.record_spec import pretraining_record
from albert_tf.data.record_writing import write_records
from albert_tf.tokenization import load_tokenizer
from benchmarks.harness import Usage, markdown_table, processor, watch
from benchmarks.original import check_original, run_original

ROOT = pathlib.Path(__file__).parents[1]

# Of text that the original reads, divided by the copies that it makes.
ORIGINAL_BYTES = 3_000_000

# Copies of the text -> how many times as fast as the original two workers are to be.
GOALS = {1: 10, 10: 20}
# Pieces of a sequence -> predictions.
LENGTHS = {128: 20, 512: 77}
WORKERS = [1, 2]

MASKS = ["static", "dynamic"]

HEADER = [
    "masks",
    "length",
    "copies",
    "workers",
    "tokens/s",
    "x original",
    "seconds",
    "CPU s",
    "tokens/CPU s",
    "peak MiB",
    "worker MiB",
]
# Of the columns that are measured.
STYLES = {
    "rate": ",.0f",
    "faster": ".1f",
    "seconds": ".1f",
    "cpu_seconds": ".1f",
    "cpu_rate": ",.0f",
    "peak_mib": ".0f",
    "worker_mib": ".0f",
}
ORIGINAL_HEADER = ["length", "copies", "original: tokens/s", "tokens/CPU s", "peak MiB"]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One run.

    Attributes:
        tokens: pieces in the instances.
        usage: time and memory of all processes.
    """

    tokens: int
    usage: Usage


def measure(flags: list[str]) -> Measurement:
    """Runs `create_pretraining_data.py` into a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "create_pretraining_data.py"), *flags]
        usage = watch([*command, f"--output_file={folder}/out.tfrecord"])
        stats = json.loads(pathlib.Path(folder, "out.stats.json").read_text())
    lengths = stats["counts"]["lengths"]
    tokens = sum(int(length) * count for length, count in lengths.items())
    return Measurement(tokens, usage)


class Setting(NamedTuple):
    """What is measured."""

    masks: str
    length: int
    copies: int
    workers: int


def measure_setting(setting: Setting, text: str, model: str) -> Measurement:
    """Runs `create_pretraining_data.py` in one setting."""
    return measure(
        [
            f"--input_file={text}",
            f"--spm_model_file={model}",
            "--encoding_errors=replace",
            f"--max_seq_length={setting.length}",
            f"--max_predictions_per_seq={LENGTHS[setting.length]}",
            f"--dupe_factor={setting.copies}",
            f"--masking={setting.masks}",
            f"--num_workers={setting.workers}",
        ]
    )


def measure_original(
    original_dir: str, text: bytes, model: str, length: int, copies: int
) -> dict[str, float]:
    """Runs the original's script of the same name, on the beginning of a text."""
    beginning = text[: ORIGINAL_BYTES // copies].decode(errors="ignore")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "text.txt").write_text(beginning)
        return run_original(
            original_dir,
            "pretraining_data",
            f"--input_file={folder}/text.txt",
            f"--output_file={folder}/out.tfrecord",
            f"--spm_model_file={model}",
            f"--max_seq_length={length}",
            f"--max_predictions_per_seq={LENGTHS[length]}",
            f"--dupe_factor={copies}",
        )


def measure_start_up(model: str) -> float:
    """Returns the seconds of a run that has next to nothing to do: imports, and loading the model."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("One sentence.\nAnd another.\n")
        text.flush()
        return measure([f"--input_file={text.name}", f"--spm_model_file={model}"]).usage.seconds


def measure_stages(text: str, model: str, length: int, predictions: int) -> list[list[str]]:
    """Returns rows of CPU seconds: what each stage takes in one process, for a single copy."""
    tokenizer = load_tokenizer(model, None, lower_case=True)
    corpus = CorpusConfig(encoding_errors="replace")
    config = PretrainingDataConfig(corpus, SegmentConfig(length), MaskingConfig(predictions), 0, 1)
    paths = [file.path for file in find_files([text])]
    chunks, reading = _timed(lambda: list(CorpusReader(paths, corpus).chunks()))

    def make(dupe_factor: int) -> list[KeyedRecord]:
        maker = ChunkMaker(tokenizer, dataclasses.replace(config, dupe_factor=dupe_factor))
        stats = PretrainingDataStats()
        return [record for chunk in chunks for record in maker(chunk, stats)]

    _, tokenizing = _timed(lambda: make(0))
    records, making = _timed(lambda: make(1))
    spec = pretraining_record(length, predictions)
    some = [record for _, record in records[:1000]]
    columns = {name: tensor.numpy() for name, tensor in spec.parse(tf.constant(some)).items()}
    _, serializing = _timed(lambda: spec.serialize_batch(columns))
    serializing *= len(records) / len(some)
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter(f"{folder}/run")

        def write_runs() -> None:
            for key, record in records:
                writer.add(key, record)
            writer.flush()

        _, writing_runs = _timed(write_runs)
        records_sorted = read_sorted(writer.paths, writer.sizes, 0, len(records))
        _, writing_shards = _timed(lambda: write_records(f"{folder}/out", records_sorted))
    stages = {
        "reading, hashing": reading,
        "tokenizing": tokenizing,
        "segments and masks": making - tokenizing - serializing,
        "serializing": serializing,
        "sorting, writing runs": writing_runs,
        "sorting, writing shards": writing_shards,
    }
    total = sum(stages.values())
    return [
        [str(length), name, f"{seconds:.2f}", f"{seconds / total:.0%}"]
        for name, seconds in stages.items()
    ]


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Returns what `work` returns and its CPU seconds."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def take_turns(arguments: argparse.Namespace) -> Iterator[tuple[tuple, dict[str, float]]]:
    """Yields each measurement: ours by its setting, the original's by length and copies."""
    text = b"".join(pathlib.Path(file.path).read_bytes() for file in find_files([arguments.text]))
    start_up = measure_start_up(arguments.model)
    print(f"start-up: {start_up:.1f} seconds", flush=True)
    for _, length, copies in itertools.product(range(arguments.rounds), LENGTHS, arguments.copies):
        original_rate = None
        if arguments.original_dir:
            took = measure_original(arguments.original_dir, text, arguments.model, length, copies)
            original_rate = took["tokens"] / took["seconds"]
            yield (
                (length, copies),
                {
                    "rate": original_rate,
                    "cpu_rate": took["tokens"] / took["cpu_seconds"],
                    "peak_mib": took["peak_mib"],
                },
            )
        for masks, workers in itertools.product(arguments.masks, arguments.workers):
            setting = Setting(masks, length, copies, workers)
            measured = measure_setting(setting, arguments.text, arguments.model)
            rate = measured.tokens / (measured.usage.seconds - start_up)
            yield (
                setting,
                {
                    "rate": rate,
                    "faster": rate / original_rate if original_rate else math.nan,
                    "seconds": measured.usage.seconds,
                    "cpu_seconds": measured.usage.all_cpu_seconds,
                    "cpu_rate": measured.tokens / measured.usage.all_cpu_seconds,
                    "peak_mib": measured.usage.peak_mib,
                    "worker_mib": measured.usage.worker_mib,
                },
            )


def medians(measured: Sequence[dict[str, float]]) -> dict[str, float]:
    """Returns the median of each value."""
    return {name: statistics.median(one[name] for one in measured) for name in measured[0]}


def main() -> int:
    """Measures each setting; returns 1 where two workers are not as fast as the README says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True, help="folder or file of text")
    parser.add_argument("--model", required=True, help="SentencePiece model")
    parser.add_argument("--original_dir", help="clone of google-research/albert, for the ratios")
    parser.add_argument("--copies", type=int, nargs="*", default=list(GOALS), help="dupe factors")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    parser.add_argument("--masks", nargs="*", default=MASKS, choices=MASKS)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.original_dir:
        check_original(arguments.original_dir)
    print(processor(), flush=True)
    results: dict[tuple, list[dict[str, float]]] = {}
    for setting, measured in take_turns(arguments):
        results.setdefault(setting, []).append(measured)
        values = " ".join(f"{name}={value:,.1f}" for name, value in measured.items())
        print(*setting, values, f"load={os.getloadavg()[0]:.1f}", flush=True)
    rows, original_rows, failed = [], [], False
    for setting, measured in results.items():
        median = medians(measured)
        if isinstance(setting, Setting):
            shown = [format(median[name], style) for name, style in STYLES.items()]
            rows.append([*map(str, setting), *(value.replace("nan", "") for value in shown)])
            failed |= setting.workers == 2 and median["faster"] < GOALS.get(setting.copies, 0)
        else:
            shown = [format(median[name], STYLES[name]) for name in median]
            original_rows.append([*map(str, setting), *shown])
    print(markdown_table(HEADER, rows))
    if original_rows:
        print(markdown_table(ORIGINAL_HEADER, original_rows, text_columns=0))
    stages = itertools.chain.from_iterable(
        measure_stages(arguments.text, arguments.model, *lengths) for lengths in LENGTHS.items()
    )
    print(markdown_table(["length", "stage, one copy", "CPU s", "share"], list(stages), 2))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
