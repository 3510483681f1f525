"""Trainings of a benchmark as child processes, whose results accumulate in a file of JSON lines.

Each finished training adds one line. A later call skips those that have a line and resumes the one that
was stopped.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.errors import StoppedError
from albert_tf.options import check_ranges, option
from albert_tf.sources import find_model
from benchmarks.harness import ROOT, processor

_RESULTS_FILE, _LOG, _SECONDS = "eval_results.json", "log.txt", "seconds.txt"
# Several processes share the machine better than their threads would.
_ONE_CORE = dict.fromkeys(
    ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"
)

Line = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingsOptions:
    """The options that benchmarks of trainings share."""

    work_dir: str = option("Folder for data and checkpoints while a run lasts.", "trainings")
    model: str = option("Name or folder of the model to fine-tune.", "small_en")
    report: bool = option("Train nothing; print the table of --results.", False)

    def __post_init__(self):
        check_ranges(self)


def weights_checksum(model: str) -> str:
    """Returns a checksum that tells snapshots of a model's weights apart."""
    with open(os.path.join(find_model(model), "model.safetensors"), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:8]


class Results:
    """The lines of a results file, which may not exist yet."""

    def __init__(self, path: str):
        self._path = path
        self.lines: list[Line] = files.read_json_lines(path)

    def find(self, key: Line) -> list[Line]:
        """Returns the lines that have all values of a key."""
        return [line for line in self.lines if key.items() <= line.items()]

    def add(self, line: Line) -> None:
        """Appends a line."""
        self.lines.append(line)
        with open(self._path, "a") as file:
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
    """Does the runs that have no line sequentially, in folders of `work_dir`.

    Raises:
        StoppedError: a command failed.
    """
    for number, run in enumerate(runs, start=1):
        if results.find(run.key):
            continue
        folder = pathlib.Path(work_dir).resolve() / run.folder
        folder.mkdir(parents=True, exist_ok=True)
        done = folder / _RESULTS_FILE
        if not done.exists():
            _run_command(run.command, folder)
        if run.evaluation:
            done.unlink()
            _run_command(run.evaluation, folder)
        seconds = map(float, (folder / _SECONDS).read_text().split())
        measured = {
            "scores": files.read_json(str(done)),
            "cpu_minutes": round(sum(seconds) / 60, 2),
            "processor": processor(),
        }
        results.add({**run.key, **measured})
        print(f"{number} of {len(runs)}: {json.dumps(results.lines[-1])}", flush=True)
        shutil.rmtree(folder)


def _run_command(command: Sequence[str], folder: pathlib.Path) -> None:
    """Runs a Python command on one core, and adds its CPU seconds to a file, also if it is stopped."""
    log, before = folder / _LOG, _seconds_of_children()
    command = [sys.executable, *command, f"--output_dir={folder}"]
    with (
        open(log, "a") as file,
        subprocess.Popen(
            command, cwd=ROOT, env=os.environ | _ONE_CORE, stdout=file, stderr=subprocess.STDOUT
        ) as child,
    ):
        try:
            child.wait()
        finally:
            child.terminate()  # A training that is stopped saves and ends.
            child.wait()
            with open(folder / _SECONDS, "a") as seconds:
                seconds.write(f"{_seconds_of_children() - before}\n")
    if not (folder / _RESULTS_FILE).exists():
        lines = log.read_text(errors="replace").strip().splitlines()
        raise StoppedError(f"{command[1]} failed: {lines[-1] if lines else ''} (see {log})")


def _seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
