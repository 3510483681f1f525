"""Times what Google's original (github.com/google-research/albert) makes of text, in turns with ours.

    python -m benchmarks.original ../albert pretraining_data --input_file=text.txt --output_file=out ...
    python -m benchmarks.original ../albert squad dev-v2.0.json 30k-clean.model 1000

The first argument is a clone. The flags of `pretraining_data` are the original's own; `squad` takes a
file, a vocabulary and how many of its questions to cut into windows. Prints a line of JSON; imports are
left out of the time.

The original was written for TensorFlow 1. Making data uses nothing that is gone, but its modules import
such things: they are replaced by objects that do nothing. It needs the package `six`.
"""

import contextlib
import dataclasses
import importlib
import importlib.util
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

import psutil

from albert_tf.errors import InputError, StoppedError

NAME = "original"
_SECONDS_BETWEEN_SAMPLES = 0.2
_MIB = 2**20
_CONTRIB = "tensorflow.contrib"
_GONE = ("tensorflow_hub", _CONTRIB, f"{_CONTRIB}.layers", f"{_CONTRIB}.tpu")
_SCRIPT = "create_pretraining_data.py"

# Of `run_squad_v2.py`.
_MAX_SEQ_LENGTH, _DOC_STRIDE, _MAX_QUERY_LENGTH = 384, 128, 64


@dataclasses.dataclass
class Usage:
    """Resources that a command and all of its descendants used, by samples."""

    seconds: float = 0.0
    cpu_seconds: dict[int, float] = dataclasses.field(default_factory=dict)  # by process id
    peak_mib: float = 0.0  # the largest sum of all processes, shared pages counted once
    worker_mib: float = 0.0  # the largest memory that a descendant shares with no other process

    @property
    def all_cpu_seconds(self) -> float:
        """CPU time of all processes."""
        return sum(self.cpu_seconds.values())

    def sample(self, root: psutil.Process) -> None:
        """Looks at a process and its descendants."""
        total = 0.0
        for process in (root, *root.children(recursive=True)):
            # A process may end meanwhile.
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                times, memory = process.cpu_times(), process.memory_full_info()
                self.cpu_seconds[process.pid] = times.user + times.system
                total += memory.pss / _MIB
                if process.pid != root.pid:
                    self.worker_mib = max(self.worker_mib, memory.uss / _MIB)
        self.peak_mib = max(self.peak_mib, total)


def watch(command: Sequence[str], output: str = os.devnull) -> Usage:
    """Runs a command, with `output` for its standard output, and returns the resources that it used.

    Raises:
        StoppedError: its exit status is not 0.
    """
    usage = Usage()
    start = time.monotonic()
    with open(output, "w") as file, tempfile.TemporaryFile("w+") as log:
        process = psutil.Popen(command, stdout=file, stderr=log)
        while process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                usage.sample(process)
            time.sleep(_SECONDS_BETWEEN_SAMPLES)
        usage.seconds = time.monotonic() - start
        if process.returncode:
            log.seek(0)
            lines = log.read().strip().split("\n")
            raise StoppedError(f"{' '.join(command[:3])} ended: {lines[-1]}")
    return usage


class Took(NamedTuple):
    """What a run made, tokens or windows, and the resources that it used."""

    count: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    worker_mib: float = 0.0

    @property
    def rate(self) -> float:
        """What it made in a second."""
        return self.count / self.seconds


def header(unit: str) -> list[str]:
    """Returns the columns of `compare`."""
    rates = [f"{unit}/s", "x original", "CPU s", f"{unit}/CPU s"]
    return ["", unit, "seconds", *rates, "peak MiB", "worker MiB"]


def compare(
    work: Mapping[str, Callable[[], Took]], rounds: int
) -> tuple[list[list[str]], dict[str, float]]:
    """Runs implementations in turn; `NAME` names the original if it is among them.

    Returns:
        A row of medians for each, and how many times as fast as the original each is.
    """
    took: dict[str, list[Took]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, do in work.items():
            took[name].append(do())
            print(f"{name}: {took[name][-1]}, load={os.getloadavg()[0]:.1f}", flush=True)
    rows, times = [], {}
    for name, runs in took.items():
        count, seconds, cpu_seconds, *memory = map(statistics.median, zip(*runs, strict=True))
        pairs = zip(runs, took.get(NAME, ()), strict=False)
        ratios = [one.rate / other.rate for one, other in pairs]
        times[name] = statistics.median(ratios) if ratios else math.nan
        cells = [f"{count:,.0f}", f"{seconds:.1f}", f"{count / seconds:,.0f}"]
        cells += [f"{times[name]:.1f}" if ratios else "", f"{cpu_seconds:.1f}"]
        cells += [f"{count / cpu_seconds:,.0f}", *(f"{mib:,.0f}" for mib in memory)]
        rows.append([name, *cells])
    return rows, times


def check(original_dir: str) -> None:
    """Raises `InputError` if the folder is no clone, or `six` is not installed."""
    _find(original_dir)
    if importlib.util.find_spec("six") is None:
        raise InputError("--original_dir: the original needs the package six: pip install six")


def run(original_dir: str, part: str, *arguments: str) -> Took:
    """Runs a part of the original in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/took.json"
        command = [sys.executable, "-m", __name__, original_dir, part, *arguments]
        usage = watch(command, output)
        *_, line = pathlib.Path(output).read_text().splitlines()
    return Took(**json.loads(line), peak_mib=usage.peak_mib)


def _find(original_dir: str) -> pathlib.Path:
    """Returns the folder with the scripts: a clone, or `albert` in the folder that is given."""
    for folder in (pathlib.Path(original_dir), pathlib.Path(original_dir, "albert")):
        if (folder / _SCRIPT).exists():
            return folder.resolve()
    raise InputError(
        f"--original_dir: '{original_dir}' has no {_SCRIPT}; expected a clone of "
        "https://github.com/google-research/albert"
    )


def _import(folder: pathlib.Path, name: str) -> types.ModuleType:
    """Imports a module of the original, which calls its package `albert` whatever the clone's name."""
    import tensorflow.compat.v1 as tf1

    sys.modules |= {gone: mock.MagicMock() for gone in _GONE}
    if not hasattr(tf1, "estimator"):
        tf1.estimator = mock.MagicMock()
    package = types.ModuleType("albert")
    package.__path__ = [str(folder)]
    sys.modules["albert"] = package
    return importlib.import_module(f"albert.{name}")


def _pretraining_data(folder: pathlib.Path, arguments: list[str]) -> dict[str, Any]:
    import tensorflow as tf
    from absl import flags

    script = _import(folder, "create_pretraining_data")
    flags.FLAGS([_SCRIPT, *arguments])
    took = _time(lambda: script.main(None))
    mask = {"input_mask": tf.io.FixedLenFeature((flags.FLAGS.max_seq_length,), tf.int64)}
    records = tf.data.TFRecordDataset(flags.FLAGS.output_file).batch(1024)
    tokens = sum(
        int(tf.reduce_sum(tf.io.parse_example(batch, mask)["input_mask"])) for batch in records
    )
    return took | {"count": tokens}


def _squad(folder: pathlib.Path, arguments: list[str]) -> dict[str, Any]:
    input_file, spm_model_file, num_questions = arguments
    script, tokenization = _import(folder, "squad_utils"), _import(folder, "tokenization")
    tokenizer = tokenization.FullTokenizer(None, True, spm_model_file)
    examples = script.read_squad_examples(input_file, is_training=False)
    step = max(1, len(examples) // int(num_questions))
    with tempfile.TemporaryDirectory() as written:
        writer = script.FeatureWriter(f"{written}/windows", is_training=False)
        took = _time(
            lambda: script.convert_examples_to_features(
                examples[::step][: int(num_questions)],
                tokenizer,
                _MAX_SEQ_LENGTH,
                _DOC_STRIDE,
                _MAX_QUERY_LENGTH,
                is_training=False,
                output_fn=writer.process_feature,
                do_lower_case=True,
            )
        )
        writer.close()
    return took | {"count": writer.num_features}


def _time(work: Callable[[], Any]) -> dict[str, float]:
    start, cpu_start = time.monotonic(), time.process_time()
    work()
    return {
        "seconds": time.monotonic() - start,
        "cpu_seconds": time.process_time() - cpu_start,
    }


def main() -> None:
    """Runs one part."""
    original_dir, part, *arguments = sys.argv[1:]
    parts = {"pretraining_data": _pretraining_data, "squad": _squad}
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        took = parts[part](_find(original_dir), arguments)
    print(json.dumps(took))


if __name__ == "__main__":
    main()
