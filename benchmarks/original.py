"""Times Google's original (github.com/google-research/albert) as it makes pre-training data.

    python -m benchmarks.original ../albert --input_file=text.txt --output_file=out ...

The first argument is a clone, the flags are the original's own. Prints a line of JSON; imports are left
out of the time.

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
# The columns of `compare`.
HEADER = (
    *("", "tokens", "seconds", "tokens/s", "x original", "CPU s", "tokens/CPU s"),
    *("peak MiB", "worker MiB"),
)


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
    """The tokens that a run made, and the resources that it used."""

    tokens: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    worker_mib: float = 0.0

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


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
        tokens, seconds, cpu_seconds, *memory = map(statistics.median, zip(*runs, strict=True))
        pairs = zip(runs, took.get(NAME, ()), strict=False)
        ratios = [one.rate / other.rate for one, other in pairs]
        times[name] = statistics.median(ratios) if ratios else math.nan
        cells = [f"{tokens:,.0f}", f"{seconds:.1f}", f"{tokens / seconds:,.0f}"]
        cells += [f"{times[name]:.1f}" if ratios else "", f"{cpu_seconds:.1f}"]
        cells += [f"{tokens / cpu_seconds:,.0f}", *(f"{mib:,.0f}" for mib in memory)]
        rows.append([name, *cells])
    return rows, times


def check(original_dir: str) -> None:
    """Raises `InputError` if the folder is no clone, or `six` is not installed."""
    _find(original_dir)
    if importlib.util.find_spec("six") is None:
        raise InputError("--original_dir: the original needs the package six: pip install six")


def run(original_dir: str, *flags: str) -> Took:
    """Runs the original in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/took.json"
        command = [sys.executable, "-m", __name__, original_dir, *flags]
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


def _import(folder: pathlib.Path) -> types.ModuleType:
    """Imports the script of the original, which calls its package `albert` whatever the clone's name."""
    import tensorflow.compat.v1 as tf1

    sys.modules |= {gone: mock.MagicMock() for gone in _GONE}
    if not hasattr(tf1, "estimator"):
        tf1.estimator = mock.MagicMock()
    package = types.ModuleType("albert")
    package.__path__ = [str(folder)]
    sys.modules["albert"] = package
    return importlib.import_module("albert.create_pretraining_data")


def _make_data(folder: pathlib.Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Makes data in this process, and returns fields of `Took`."""
    import tensorflow as tf
    from absl import flags

    script = _import(folder)
    flags.FLAGS([_SCRIPT, *arguments])
    start, cpu_start = time.monotonic(), time.process_time()
    script.main(None)
    took = {
        "seconds": time.monotonic() - start,
        "cpu_seconds": time.process_time() - cpu_start,
    }
    mask = {"input_mask": tf.io.FixedLenFeature((flags.FLAGS.max_seq_length,), tf.int64)}
    records = tf.data.TFRecordDataset(flags.FLAGS.output_file).batch(1024)
    tokens = sum(
        int(tf.reduce_sum(tf.io.parse_example(batch, mask)["input_mask"])) for batch in records
    )
    return took | {"tokens": tokens}


def main() -> None:
    """Prints what the original took."""
    original_dir, *arguments = sys.argv[1:]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        took = _make_data(_find(original_dir), arguments)
    print(json.dumps(took))


if __name__ == "__main__":
    main()
