"""The processes of a training, one per host: when they end, and with which line."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple

from albert_tf.errors import InputError

_SECONDS_TO_START, _SECONDS_TO_END = 600, 240
_SECONDS_BETWEEN_LOOKS = 0.1


class Worker(NamedTuple):
    """A process and its log of stderr."""

    process: subprocess.Popen
    log: IO[str]

    def last_words(self) -> str:
        """Returns its last line, and whether there was a traceback; nothing if it was killed."""
        if self.process.returncode == -signal.SIGKILL:
            return ""
        self.log.seek(0)
        lines = self.log.read().strip().splitlines()
        traced = " [and a traceback]" if any("Traceback" in line for line in lines) else ""
        return (lines[-1] if lines else "") + traced


def start(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Worker:
    """Starts a command on the CPU."""
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115
    process = subprocess.Popen(
        command,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=log,
    )
    return Worker(process, log)


class End(NamedTuple):
    """How a worker ended.

    Attributes:
        seconds: seconds since the fault; None if it still ran at the end of the wait.
        status: its exit status.
        line: the last line that it printed.
    """

    seconds: float | None
    status: int | None
    line: str


class Workers:
    """The workers of a training, one per host. They are killed at the end of the `with` statement."""

    def __init__(self, workers: Sequence[Worker]):
        self.workers = workers

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exception) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
            worker.log.close()

    def wait_for(self, is_ready: Callable[[], bool]) -> None:
        """Waits until something is there, while all workers run.

        Raises:
            InputError: a worker ended, or it takes too long.
        """
        deadline = time.monotonic() + _SECONDS_TO_START
        while not is_ready():
            for number, worker in enumerate(self.workers):
                if worker.process.poll() is not None or time.monotonic() > deadline:
                    raise InputError(f"host {number} does not train: {worker.last_words()}")
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def wait(self, count: int) -> list[End]:
        """Waits for the end of some workers, for a limited time."""
        start = time.monotonic()
        ends: dict[int, float] = {}
        while len(ends) < count and time.monotonic() < start + _SECONDS_TO_END:
            for number, worker in enumerate(self.workers):
                if number not in ends and worker.process.poll() is not None:
                    ends[number] = time.monotonic() - start
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return [
            End(ends.get(number), worker.process.returncode, worker.last_words())
            for number, worker in enumerate(self.workers)
        ]

    def finish(self) -> None:
        """Waits until all workers have ended well.

        Raises:
            InputError: a worker ended with an error, or runs on.
        """
        for number, end in enumerate(self.wait(len(self.workers))):
            if end.status != 0:
                raise InputError(f"host {number}: {end.line or 'does not end'}")
