"""A process of its own for each candidate, so that none sees another's memory, threads or settings.

The workers of a workload live side by side and work in turn: each line that one is sent asks for a
round, and each line it answers holds a `Round`. What they say otherwise goes to their logs.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple, Self

from albert_tf.errors import StoppedError
from benchmarks.pretraining.workload import Workload

_ROOT = pathlib.Path(__file__).parents[2]
PRODUCTS = "products"


class Round(NamedTuple):
    """What one round took.

    Attributes:
        seconds: of the clock, the median of the round's steps.
        cpu_seconds: of all threads together, likewise.
        peak_mib: the largest resident set of the process until now.
    """

    seconds: float
    cpu_seconds: float
    peak_mib: float


class Worker:
    """The parent's end of a worker; ends the process on leaving its `with`.

    Args:
        name: `PRODUCTS` or one of `candidates.CANDIDATES`.
        workload: what to run.
    """

    def __init__(self, name: str, workload: Workload):
        self._name = name
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, as it lives as long as the process
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.pretraining.worker"),
                json.dumps({"name": name, **dataclasses.asdict(workload)}),
            ],
            cwd=_ROOT,
            env=os.environ | {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def run(self, steps: int) -> Round:
        """Runs a round of so many steps; before the first one, the process starts and compiles.

        Raises:
            StoppedError: the process ended.
        """
        try:
            self._process.stdin.write(f"{steps}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        if not line:
            raise StoppedError(f"{self._name} ended: {self._last_words()}")
        return Round(*json.loads(line))

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return f"{last} (exit code {code})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception):
        self._process.kill()
        self._process.communicate()
        self._log.close()


def _time(step) -> tuple[float, float]:
    start, cpu_start = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - start, time.process_time() - cpu_start


def _median_times(step, steps: int) -> tuple[float, float]:
    times = [_time(step) for _ in range(steps)]
    return tuple(map(statistics.median, zip(*times, strict=True)))


def _peak_mib() -> float:
    """Returns the peak resident set since the process started its program (Linux)."""
    status = pathlib.Path("/proc/self/status").read_text()
    (line,) = (line for line in status.split("\n") if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _work(name: str, workload: Workload) -> None:
    from benchmarks.pretraining.candidates import CANDIDATES, product_timers

    # The protocol has standard output to itself.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if name == PRODUCTS:
        # A forward pass counts each of them `count` times, and the backward pass twice as much.
        timers = [(3 * count, step) for count, step in product_timers(workload)]
    else:
        timers = [(1, CANDIDATES[name](workload))]
    for _, step in timers:
        step()  # compiles
        step()  # and settles: the first step makes the optimizer's state, in some
    for line in sys.stdin:
        times = [(count, *_median_times(step, int(line))) for count, step in timers]
        seconds = sum(count * wall for count, wall, _ in times)
        cpu_seconds = sum(count * cpu for count, _, cpu in times)
        answers.write(json.dumps(Round(seconds, cpu_seconds, _peak_mib())) + "\n")
        answers.flush()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    _work(given.pop("name"), Workload(**given))
