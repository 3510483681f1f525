"""Fine-tunings of a benchmark as child processes, whose results accumulate in a file of JSON lines.

Each finished run adds one line. A later call skips the runs that have a line and, where the program can,
resumes the one that was stopped.
"""

import concurrent.futures
import dataclasses
import json
import pathlib
import shutil
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import files
from benchmarks.ablations.training import Children, cpu_seconds
from benchmarks.harness import processor

_RESULTS = "eval_results.json"
_LOG = "log.txt"
# Of a line, what is not part of a run's key.
_MEASURED = ("scores", "cpu_minutes", "processor")

Line = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """A fine-tuning to do.

    Attributes:
        key: tells its line in the results from others; JSON values.
        command: arguments of Python, without `--output_dir`, where it writes `eval_results.json`.
        keep: whether a later run needs its folder.
    """

    key: Mapping[str, Any]
    command: Sequence[str]
    keep: bool = False

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return "-".join(map(str, self.key.values())).replace("/", "_")


class Results:
    """The lines of a results file.

    Args:
        path: the file, which may not exist yet.
    """

    def __init__(self, path: str):
        self._path = pathlib.Path(path)
        self.lines = files.read_json_lines(path) if self._path.exists() else []

    def find(self, run: Run) -> Line | None:
        """Returns the line of a run; None if it is not finished."""
        return next((line for line in self.lines if _key(line) == run.key), None)

    def add(self, run: Run, measured: Line) -> None:
        """Appends the line of a run."""
        self.lines.append({**run.key, **measured})
        with self._path.open("a") as file:
            file.write(json.dumps(self.lines[-1]) + "\n")


def _key(line: Line) -> Line:
    return {name: value for name, value in line.items() if name not in _MEASURED}


def finish(runs: Sequence[Run], results: Results, work_dir: str, one_core: bool = False) -> None:
    """Does the runs that have no line, one after the other.

    Args:
        runs: in order.
        results: the lines that there are, which grow.
        work_dir: folder for the checkpoints of the present run and of those that are kept.
        one_core: whether a run may use one core only.

    Raises:
        StoppedError: a program failed.
    """
    children = Children(one_core)
    # In a thread, so that a stopped command's CPU time is still counted.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        try:
            for number, run in enumerate(runs, start=1):
                if results.find(run):
                    continue
                folder = pathlib.Path(work_dir).resolve() / run.folder
                folder.mkdir(parents=True, exist_ok=True)
                command, log = [*run.command, f"--output_dir={folder}"], folder / _LOG
                thread.submit(children.run, command, log, folder / _RESULTS).result()
                results.add(run, _measure(folder))
                print(f"{number} of {len(runs)}: {json.dumps(results.lines[-1])}", flush=True)
                if not run.keep:
                    shutil.rmtree(folder)
        finally:
            children.stop()


def _measure(folder: pathlib.Path) -> Line:
    return {
        "scores": files.read_json(str(folder / _RESULTS)),
        "cpu_minutes": round(cpu_seconds(folder / _LOG) / 60, 2),
        "processor": processor(),
    }


def mean_and_spread(values: Sequence[float], digits: int = 1) -> str:
    """Returns the mean and, of several values, the standard deviation, e.g. `87.3 ± 0.4`."""
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean
