"""Programs that share a machine in turns: while one runs the others are stopped.

Noise of the machine then falls on all of them alike, and each has a clock of its own, which stands while
the program is stopped.
"""

import json
import math
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from albert_tf.errors import InputError

_SECONDS_BETWEEN_LOOKS = 0.05


class Report(NamedTuple):
    """A line of a program's `metrics.jsonl`.

    Attributes:
        clock: seconds that the program had run when it wrote the line, stops excluded.
        step: updates so far.
        split: `train` or `eval`.
        metrics: by name.
    """

    clock: float
    step: int
    split: str
    metrics: dict[str, float]


class Point(NamedTuple):
    """A held-out evaluation.

    Attributes:
        seconds: of training before it; no evaluation, and no checkpoint written with one, counts.
        step: updates so far.
        metrics: by name.
    """

    seconds: float
    step: int
    metrics: dict[str, float]


class Program:
    """A process that trains and reports to a `metrics.jsonl`; stopped until its first turn.

    Args:
        name: what to call it.
        command: starts it.
        output_dir: folder of its `metrics.jsonl`, and of what it prints.
        directory: where it runs.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        output_dir: pathlib.Path,
        directory: pathlib.Path,
    ):
        self.name = name
        self.reports: list[Report] = []
        self._metrics_file = output_dir / "metrics.jsonl"
        self._log_file = output_dir / "output.txt"
        output_dir.mkdir(parents=True)
        self._clock = 0.0
        with self._log_file.open("w") as log:
            # A group of its own, so that a stop reaches the processes that it starts, too. And not a
            # session: Linux schedules sessions as one, and the priority of ours is theirs.
            self._process = subprocess.Popen(
                command, cwd=directory, stdout=log, stderr=log, process_group=0
            )
        self._signal(signal.SIGSTOP)

    @property
    def has_ended(self) -> bool:
        """Whether it came to its end."""
        return self._process.returncode is not None

    def run(self, seconds: float, reports: float = math.inf) -> None:
        """Lets it run for a while.

        Args:
            seconds: how long.
            reports: ends the turn once it has written so many.

        Raises:
            InputError: it failed.
        """
        start = time.monotonic()
        self._signal(signal.SIGCONT)
        before = self._clock
        while self._clock < before + seconds and len(self.reports) < reports and not self.has_ended:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            self._process.poll()
            self._clock = before + time.monotonic() - start
            self._read_reports()
        if not self.has_ended:
            self._signal(signal.SIGSTOP)
        elif self._process.returncode:
            raise InputError(
                f"{self.name} ended with exit code {self._process.returncode}; see {self._log_file}"
            )

    def end(self) -> None:
        """Ends it, wherever it is."""
        if not self.has_ended:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _read_reports(self) -> None:
        if not self._metrics_file.exists():
            return
        # A last line without its end is still being written.
        lines = self._metrics_file.read_text().split("\n")[:-1]
        for line in lines[len(self.reports) :]:
            metrics = json.loads(line)
            step, split = metrics.pop("step"), metrics.pop("split")
            self.reports.append(Report(self._clock, step, split, metrics))

    def _signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)


def alternate(
    programs: Sequence[Program], seconds: float, after_turn: Callable[[], None] = lambda: None
) -> None:
    """Lets programs run in turns until all have ended.

    Args:
        programs: what runs; whatever happens, none of them is left behind.
        seconds: of a turn.
        after_turn: called after each turn.
    """
    try:
        while any(not program.has_ended for program in programs):
            for program in programs:
                if not program.has_ended:
                    program.run(seconds)
                    after_turn()
    finally:
        for program in programs:
            program.end()


def evaluations(reports: Sequence[Report]) -> list[Point]:
    """Returns the held-out evaluations of a program, with the seconds it had trained.

    Training time runs from one evaluation's report to the report of training that comes before the next.
    The first evaluation is that of the untrained model, so what a program does before does not count.
    """
    points: list[Point] = []
    seconds, since = 0.0, None
    for report in reports:
        if report.split == "eval":
            points.append(Point(seconds, report.step, report.metrics))
        elif since is not None:
            seconds += report.clock - since
        since = report.clock if points else None
    return points


def steps_per_second(reports: Sequence[Report]) -> float:
    """Returns the speed between the second and the last report of training: the first compiles.

    Raises:
        ValueError: there are fewer than three.
    """
    train = [report for report in reports if report.split == "train"]
    if len(train) < 3:
        raise ValueError(f"expected three reports of training, received {len(train)}")
    _, first, *_, last = train
    return (last.step - first.step) / (last.clock - first.clock)
