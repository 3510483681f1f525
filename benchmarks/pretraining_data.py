"""How fast pre-training data is made, in how much memory, and where the time goes.

    python -m benchmarks.pretraining_data --text=books --model=30k-clean.model

Each line is one run of `create_pretraining_data.py`. Seconds and CPU seconds are all that it took; the
rate leaves out what a run with nothing to do takes, since the original's rate leaves its start-up out,
too. What workers take to start is in it. Tokens are those in the instances, special pieces included. CPU
seconds are those of all processes; on a machine that does other things, too, they say more than the
clock. Memory is the largest sum over all processes of the run, pages that they share counted once
(PSS); a worker's is its own, the imports left out, and 0 where one process does all.
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.data.blocks import BlockMaker, PretrainingDataRule
from albert_tf.data.corpus import CorpusReader, CorpusRule, find_files
from albert_tf.data.masking import MaskingRule
from albert_tf.data.pretraining_stats import PretrainingDataStats
from albert_tf.data.record_spec import pretraining_record
from albert_tf.data.record_writing import write_records
from albert_tf.data.sentence_order import SegmentRule
from albert_tf.data.shuffling import KeyedRecord, RunWriter, read_sorted
from albert_tf.tokenization import load_tokenizer
from benchmarks.processes import Usage, watch
from benchmarks.tables import markdown_table

ROOT = pathlib.Path(__file__).parents[1]

# The original, on two cores of the same kind: one process, start-up excluded, `time_*.json` of the
# reference data.
ORIGINAL_TOKENS_PER_SECOND = {128: 72_876, 512: 65_024}
ORIGINAL_PEAK_MIB = 583

# Copies of the text -> how many times as fast as the original two workers are to be.
GOALS = {1: 10, 10: 20}
# Pieces of a sequence, predictions.
LENGTHS = [(128, 20), (512, 77)]
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
    "load",
]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One run.

    Attributes:
        tokens: pieces in the instances.
        seconds: by the clock.
        usage: what the processes used.
    """

    tokens: int
    seconds: float
    usage: Usage


def measure(flags: list[str]) -> Measurement:
    """Runs `create_pretraining_data.py` into a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "create_pretraining_data.py"), *flags]
        seconds, usage = watch([*command, f"--output_file={folder}/out.tfrecord"])
        stats = json.loads(pathlib.Path(folder, "out.stats.json").read_text())
    lengths = stats["counts"]["lengths"]
    tokens = sum(int(length) * count for length, count in lengths.items())
    return Measurement(tokens, seconds, usage)


def measure_start_up(model: str) -> float:
    """Returns the seconds of a run that has next to nothing to do: imports, and loading the model."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("One sentence.\nAnd another.\n")
        text.flush()
        return measure([f"--input_file={text.name}", f"--spm_model_file={model}"]).seconds


def measure_stages(text: str, model: str, length: int, predictions: int) -> list[list[str]]:
    """Returns rows of CPU seconds: what each stage takes in one process, for a single copy."""
    tokenizer = load_tokenizer(model, None, lower_case=True)
    corpus = CorpusRule(encoding_errors="replace")
    rule = PretrainingDataRule(corpus, SegmentRule(length), MaskingRule(predictions), 0, 1)
    paths = [file.path for file in find_files([text], "text")]
    blocks, reading = _timed(lambda: list(CorpusReader(paths, corpus).blocks()))

    def make(dupe_factor: int) -> list[KeyedRecord]:
        maker = BlockMaker(tokenizer, dataclasses.replace(rule, dupe_factor=dupe_factor))
        stats = PretrainingDataStats()
        return [record for block in blocks for record in maker(block, stats)]

    _, tokenizing = _timed(lambda: make(0))
    records, making = _timed(lambda: make(1))
    spec = pretraining_record(length, predictions)
    tensors = spec.parse(tf.constant([record for _, record in records[:1000]]))
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    rows = [
        {name: array[row] for name, array in arrays.items()} for row in range(len(records[:1000]))
    ]
    _, serializing = _timed(lambda: [spec.serialize(row) for row in rows])
    serializing *= len(records) / len(rows)
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


def main() -> int:
    """Measures each setting; returns 1 where two workers are not as fast as the README says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True, help="folder or file of text")
    parser.add_argument("--model", required=True, help="SentencePiece model")
    parser.add_argument("--copies", type=int, nargs="*", default=list(GOALS), help="dupe factors")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    parser.add_argument("--masks", nargs="*", default=MASKS, choices=MASKS)
    arguments = parser.parse_args()
    common = [
        f"--input_file={arguments.text}",
        f"--spm_model_file={arguments.model}",
        "--encoding_errors=replace",
    ]
    rows, failed = [], False
    start_up = measure_start_up(arguments.model)
    print(f"start-up: {start_up:.1f} seconds", flush=True)
    for masks, (length, predictions), copies, workers in itertools.product(
        arguments.masks, LENGTHS, arguments.copies, arguments.workers
    ):
        measured = measure(
            [
                *common,
                f"--max_seq_length={length}",
                f"--max_predictions_per_seq={predictions}",
                f"--dupe_factor={copies}",
                f"--masking={masks}",
                f"--num_workers={workers}",
            ]
        )
        rate = measured.tokens / (measured.seconds - start_up)
        faster = rate / ORIGINAL_TOKENS_PER_SECOND[length]
        failed |= workers == 2 and faster < GOALS.get(copies, 0)
        numbers = [
            (rate, ",.0f"),
            (faster, ".1f"),
            (measured.seconds, ".1f"),
            (measured.usage.all_cpu_seconds, ".1f"),
            (measured.tokens / measured.usage.all_cpu_seconds, ",.0f"),
            (measured.usage.peak_mib, ".0f"),
            (measured.usage.worker_mib, ".0f"),
            (os.getloadavg()[0], ".1f"),
        ]
        settings = [masks, str(length), str(copies), str(workers)]
        rows.append(settings + [format(number, style) for number, style in numbers])
        print(*rows[-1], flush=True)
    print(markdown_table(HEADER, rows))
    original = [
        [str(length), f"{rate:,}", str(ORIGINAL_PEAK_MIB)]
        for length, rate in ORIGINAL_TOKENS_PER_SECOND.items()
    ]
    print(markdown_table(["length", "original: tokens/s", "peak MiB"], original, text_columns=0))
    stages = itertools.chain.from_iterable(
        measure_stages(arguments.text, arguments.model, *lengths) for lengths in LENGTHS
    )
    print(markdown_table(["length", "stage, one copy", "CPU s", "share"], list(stages), 2))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
