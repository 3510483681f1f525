"""Times the making of pre-training data in turns with the original's.

Usage:
    python -m benchmarks.pretraining_data --text=books --model=30k-clean.model --original_dir=../albert

A row is the median of some runs of `create_pretraining_data.py`. Seconds leave out what a run with
nothing to do takes, because the original's leave its start-up out, too; they include the start of
workers. CPU seconds are those of the whole command and all of its processes; if other work shares the
machine, they say more than the clock. Tokens are those in the instances, special pieces included. Memory
is the largest sum over all processes, shared pages counted once (PSS); a worker's is its own, without the
imports.

With a clone of github.com/google-research/albert in `--original_dir`, the original makes data from the
beginning of the same text with the same number of copies; it needs `six`. Its rate does not depend on the
length of the text. The command fails if two workers are not 10 times as fast with one copy of the text,
20 times with ten.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from albert_tf import command_line
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from benchmarks import original
from benchmarks.harness import ROOT, check_choices, markdown_table, processor

# Bytes of text that the original reads, divided by the copies that it makes.
_ORIGINAL_BYTES = 3_000_000
# Copies of the text -> how many times as fast as the original two workers are to be.
_GOALS = {"1": 10, "10": 20}
# Pieces of a sequence -> predictions.
_LENGTHS = {128: 20, 512: 77}
_MASKS = ("static", "dynamic")


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


def _run(start_up: float, flags: Sequence[str]) -> original.Took:
    """Runs `create_pretraining_data.py`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "create_pretraining_data.py"), *flags]
        usage = original.watch([*command, f"--output_file={folder}/out.tfrecord"])
        stats = json.loads(pathlib.Path(folder, "out.stats.json").read_text())
    lengths = stats["counts"]["lengths"]
    tokens = sum(int(length) * count for length, count in lengths.items())
    took = (usage.seconds - start_up, usage.all_cpu_seconds, usage.peak_mib, usage.worker_mib)
    return original.Took(tokens, *took)


def _run_original(original_dir: str, text: bytes, flags: Sequence[str]) -> original.Took:
    """Runs the original's script of the same name."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "text.txt").write_text(text.decode(errors="ignore"))
        paths = (f"--input_file={folder}/text.txt", f"--output_file={folder}/out.tfrecord")
        return original.run(original_dir, *paths, *flags)


def _measure_start_up(model: str) -> float:
    """Returns the seconds of a run with next to nothing to do: imports, and loading the model."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("One sentence.\nAnd another.\n")
        text.flush()
        return _run(0.0, [f"--input_file={text.name}", f"--spm_model_file={model}"]).seconds


def _main(options: PretrainingDataBenchmarkOptions) -> None:
    if options.original_dir:
        original.check(options.original_dir)
    print(processor(), flush=True)
    text = b"".join(pathlib.Path(file.path).read_bytes() for file in find_files([options.text]))
    start_up = _measure_start_up(options.model)
    misses = []
    for length, copies in itertools.product(_LENGTHS, options.copies):
        # The original's script has these flags, too.
        flags = [
            f"--spm_model_file={options.model}",
            f"--max_seq_length={length}",
            f"--max_predictions_per_seq={_LENGTHS[length]}",
            f"--dupe_factor={copies}",
        ]
        work = {}
        if options.original_dir:
            given = (options.original_dir, text[: _ORIGINAL_BYTES // int(copies)], flags)
            work[original.NAME] = functools.partial(_run_original, *given)
        for masks, workers in itertools.product(options.masks, options.workers):
            given = [
                f"--input_file={options.text}",
                f"--masking={masks}",
                f"--num_workers={workers}",
                *flags,
            ]
            work[f"{masks}, {workers} workers"] = functools.partial(_run, start_up, given)
        rows, times = original.compare(work, options.rounds)
        title = f"length {length}, {copies} copies"
        print(f"\n{title}\n\n{markdown_table(original.HEADER, rows)}\n", flush=True)
        for name, factor in times.items():
            if name.endswith(" 2 workers") and factor < _GOALS.get(copies, 0):
                misses.append(f"{title}, {name}")
    if misses:
        raise InputError(f"less than {_GOALS} times as fast: {'; '.join(misses)}")


if __name__ == "__main__":
    command_line.run(PretrainingDataBenchmarkOptions, _main)
