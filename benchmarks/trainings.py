"""Trainings of a benchmark as child processes, whose results accumulate in a file of JSON lines.

Each finished training adds one line. A later call skips those that have a line and resumes the one that
was stopped.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.errors import StoppedError
from benchmarks.harness import ROOT, processor

RESULTS_FILE = "eval_results.json"
_LOG = "log.txt"
_SECONDS = ".seconds"
# Several processes share the machine better than their threads would.
_ONE_CORE = dict.fromkeys(
    ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"
)

Line = Mapping[str, Any]


class Children:
    """Runs commands on one core each; all of them can be ended at once."""

    def __init__(self):
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.Lock()
        self._stopping = False

    def stop(self) -> None:
        """Sends SIGTERM to all children, which save and end, and starts no more."""
        with self._lock:
            self._stopping = True
            for child in self._running:
                # Not `terminate`, which might reap the child while `run` waits for it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)

    def run(self, command: Sequence[str], log: pathlib.Path, done: pathlib.Path) -> None:
        """Runs a Python command that writes `done` when it is finished; nothing if that exists.

        Its output is added to `log`, and its CPU time to a file that `cpu_seconds` reads.

        Raises:
            StoppedError: it failed.
            CancelledError: `stop` was called.
        """
        if done.exists():
            return
        with open(log, "a") as file:
            with self._lock:
                if self._stopping:
                    raise concurrent.futures.CancelledError
                child = subprocess.Popen(
                    [sys.executable, *command],
                    cwd=ROOT,
                    env=os.environ | _ONE_CORE,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
                self._running.add(child)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            with self._lock:
                self._running.remove(child)
        with open(log.with_suffix(_SECONDS), "a") as file:
            file.write(f"{usage.ru_utime + usage.ru_stime}\n")
        if not done.exists():
            if self._stopping:
                raise concurrent.futures.CancelledError
            lines = log.read_text(errors="replace").strip().splitlines()
            raise StoppedError(f"{command[0]} failed: {lines[-1] if lines else ''} (see {log})")


def cpu_seconds(log: pathlib.Path) -> float:
    """Returns the CPU seconds of all commands that had this log."""
    return sum(map(float, log.with_suffix(_SECONDS).read_text().split()))


class Results:
    """The lines of a results file, which may not exist yet."""

    def __init__(self, path: str):
        self._path = path
        self._lock = threading.Lock()
        self.lines: list[Line] = files.read_json_lines(path)

    def find(self, key: Line) -> Line | None:
        """Returns the first line that has all values of a key; None if there is none."""
        return next((line for line in self.lines if key.items() <= line.items()), None)

    def add(self, line: Line) -> None:
        """Appends a line."""
        with self._lock, open(self._path, "a") as file:
            self.lines.append(line)
            file.write(json.dumps(line) + "\n")


@dataclasses.dataclass(frozen=True)
class Run:
    """A fine-tuning to do."""

    key: Line  # tells its line in the results from others
    command: Sequence[str]  # arguments of Python, without `--output_dir`
    # Those of a second command, which evaluates the best checkpoint on other rows.
    evaluation: Sequence[str] = ()

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return "-".join(map(str, self.key.values())).replace("/", "_").replace(" ", "_")


def finish(runs: Sequence[Run], results: Results, work_dir: str) -> None:
    """Does the runs that have no line, one after the other, in folders of `work_dir`."""
    children = Children()
    # In a thread, so that a stopped command's CPU time is still counted.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        try:
            for number, run in enumerate(runs, start=1):
                if results.find(run.key):
                    continue
                folder = pathlib.Path(work_dir).resolve() / run.folder
                folder.mkdir(parents=True, exist_ok=True)
                command, log = [*run.command, f"--output_dir={folder}"], folder / _LOG
                done = folder / RESULTS_FILE
                thread.submit(children.run, command, log, done).result()
                if run.evaluation:
                    done.unlink()
                    command = [*run.evaluation, f"--output_dir={folder}"]
                    thread.submit(children.run, command, log, done).result()
                measured = {
                    "scores": files.read_json(str(done)),
                    "cpu_minutes": round(cpu_seconds(log) / 60, 2),
                    "processor": processor(),
                }
                results.add({**run.key, **measured})
                print(f"{number} of {len(runs)}: {json.dumps(results.lines[-1])}", flush=True)
                shutil.rmtree(folder)
        finally:
            children.stop()


def mean_and_spread(values: Sequence[float], digits: int = 1) -> str:
    """Returns the mean and, of several values, the standard deviation, e.g. `87.3 ± 0.4`."""
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean
