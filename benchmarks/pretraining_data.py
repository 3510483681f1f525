"""Times the making of pre-training data in turns with the original's, and shows where the time goes.

Usage:
    python -m benchmarks.pretraining_data --text=books --model=30k-clean.model --original_dir=../albert

A row is the median of some runs of `create_pretraining_data.py`. Seconds and CPU seconds are those of the
whole command and all of its processes. The rate leaves out what a run with nothing to do takes, because
the original's rate leaves its start-up out, too; it includes the start of workers. Tokens are those in
the instances, special pieces included. If other work shares the machine, CPU seconds say more than the
clock. Memory is the largest sum over all processes, shared pages counted once (PSS); a worker's is its
own, without the imports, and 0 with one process.

With a clone of github.com/google-research/albert in `--original_dir`, the original makes data from the
beginning of the same text with the same number of copies; it needs `six`. Its rate does not depend on the
length of the text. The command fails if two workers are not 10 times as fast with one copy of the text,
20 times with ten.
"""

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
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from albert_tf import command_line
from albert_tf.data.pretraining.corpus import CorpusConfig, CorpusReader
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.data.pretraining.instances import ChunkMaker, PretrainingDataConfig
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.data.pretraining.shuffling import KeyedRecord, RunWriter, read_sorted
from albert_tf.data.pretraining.statistics import PretrainingDataStats
from albert_tf.data.record_spec import pretraining_record
from albert_tf.data.record_writing import write_records
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from albert_tf.tokenization import AlbertTokenizer
from benchmarks.harness import Usage, check_choices, markdown_table, processor, watch
from benchmarks.original import check_original, run_original

_ROOT = pathlib.Path(__file__).parents[1]
# Bytes of text that the original reads, divided by the copies that it makes.
_ORIGINAL_BYTES = 3_000_000
# Copies of the text -> how many times as fast as the original two workers are to be.
_GOALS = {"1": 10, "10": 20}
# Pieces of a sequence -> predictions.
_LENGTHS = {128: 20, 512: 77}
_MASKS = ("static", "dynamic")
_ORIGINAL = "original"
_HEADER = ("masks", "length", "copies", "workers")
# Column -> its format.
_MEASURED = {
    "tokens/s": ",.0f",
    "x original": ".1f",
    "seconds": ".1f",
    "CPU s": ".1f",
    "tokens/CPU s": ",.0f",
    "peak MiB": ".0f",
    "worker MiB": ".0f",
}

# Values of the first four columns.
Setting = tuple[str, int, str, str]


@dataclasses.dataclass(frozen=True)
class PretrainingDataBenchmarkOptions:
    """The options of this benchmark."""

    text: str = option("Folder or file of text.")
    model: str = option("SentencePiece model.")
    original_dir: str | None = option(
        "A clone of github.com/google-research/albert, which takes turns with ours.", None
    )
    copies: tuple[str, ...] = option("Copies of the text to make.", tuple(_GOALS))
    workers: tuple[str, ...] = option("Numbers of processes.", ("1", "2"))
    masks: tuple[str, ...] = option("static, dynamic or both.", _MASKS)
    rounds: int = option("Number of turns.", 3, least=1)

    def __post_init__(self):
        check_ranges(self)
        check_choices("masks", self.masks, _MASKS)


def _run(flags: list[str]) -> tuple[int, Usage]:
    """Runs `create_pretraining_data.py`; returns the number of tokens and the resources used."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(_ROOT / "create_pretraining_data.py"), *flags]
        usage = watch([*command, f"--output_file={folder}/out.tfrecord"])
        stats = json.loads(pathlib.Path(folder, "out.stats.json").read_text())
    lengths = stats["counts"]["lengths"]
    return sum(int(length) * count for length, count in lengths.items()), usage


def _flags(model: str, length: int, copies: str) -> list[str]:
    """Returns the flags that the original's script has, too."""
    return [
        f"--spm_model_file={model}",
        f"--max_seq_length={length}",
        f"--max_predictions_per_seq={_LENGTHS[length]}",
        f"--dupe_factor={copies}",
    ]


def _run_original(
    original_dir: str, text: bytes, flags: list[str], copies: str
) -> dict[str, float]:
    """Runs the original's script of the same name, on the beginning of a text."""
    beginning = text[: _ORIGINAL_BYTES // int(copies)].decode(errors="ignore")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "text.txt").write_text(beginning)
        paths = (f"--input_file={folder}/text.txt", f"--output_file={folder}/out.tfrecord")
        return run_original(original_dir, "pretraining_data", *paths, *flags)


def _measure_start_up(model: str) -> float:
    """Returns the seconds of a run with next to nothing to do: imports, and loading the model."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("One sentence.\nAnd another.\n")
        text.flush()
        _, usage = _run([f"--input_file={text.name}", f"--spm_model_file={model}"])
    return usage.seconds


def measure(options: PretrainingDataBenchmarkOptions) -> Iterator[tuple[Setting, dict[str, float]]]:
    """Yields each measurement, by column."""
    text = b"".join(pathlib.Path(file.path).read_bytes() for file in find_files([options.text]))
    start_up = _measure_start_up(options.model)
    print(f"start-up: {start_up:.1f} seconds", flush=True)
    for _, length, copies in itertools.product(range(options.rounds), _LENGTHS, options.copies):
        flags = _flags(options.model, length, copies)
        original_rate = math.nan
        if options.original_dir:
            took = _run_original(options.original_dir, text, flags, copies)
            original_rate = took["tokens"] / took["seconds"]
            cpu_rate = took["tokens"] / took["cpu_seconds"]
            values = (original_rate, 1, took["seconds"], took["cpu_seconds"], cpu_rate)
            values = (*values, took["peak_mib"], 0)
            yield (_ORIGINAL, length, copies, "1"), dict(zip(_MEASURED, values, strict=True))
        for masks, workers in itertools.product(options.masks, options.workers):
            given = [f"--input_file={options.text}", "--encoding_errors=replace"]
            given += [f"--masking={masks}", f"--num_workers={workers}"]
            tokens, usage = _run(given + flags)
            rate, cpu_seconds = tokens / (usage.seconds - start_up), usage.all_cpu_seconds
            values = (rate, rate / original_rate, usage.seconds, cpu_seconds, tokens / cpu_seconds)
            values = (*values, usage.peak_mib, usage.worker_mib)
            yield (masks, length, copies, workers), dict(zip(_MEASURED, values, strict=True))


def _measure_stages(text: str, model: str, length: int, predictions: int) -> list[list[str]]:
    """Returns rows of CPU seconds: what each stage takes in one process, for a single copy."""
    tokenizer = AlbertTokenizer(model, lower_case=True)
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


def _main(options: PretrainingDataBenchmarkOptions) -> None:
    if options.original_dir:
        check_original(options.original_dir)
    print(processor(), flush=True)
    results: dict[Setting, list[dict[str, float]]] = {}
    for setting, measured in measure(options):
        results.setdefault(setting, []).append(measured)
        values = " ".join(f"{name}={value:,.1f}" for name, value in measured.items())
        print(*setting, values, f"load={os.getloadavg()[0]:.1f}", flush=True)
    rows, misses = [], []
    for setting, measured in results.items():
        medians = {name: statistics.median(one[name] for one in measured) for name in _MEASURED}
        shown = (format(medians[name], style) for name, style in _MEASURED.items())
        rows.append([*map(str, setting), *(value.replace("nan", "") for value in shown)])
        masks, _, copies, workers = setting
        if masks != _ORIGINAL and workers == "2" and medians["x original"] < _GOALS.get(copies, 0):
            misses.append(" ".join(map(str, setting)))
    print(markdown_table((*_HEADER, *_MEASURED), rows))
    stages = itertools.chain.from_iterable(
        _measure_stages(options.text, options.model, *lengths) for lengths in _LENGTHS.items()
    )
    print(markdown_table(["length", "stage, one copy", "CPU s", "share"], list(stages), 2))
    if misses:
        raise InputError(f"less than {_GOALS} times as fast: {'; '.join(misses)}")


if __name__ == "__main__":
    command_line.run(PretrainingDataBenchmarkOptions, _main)
