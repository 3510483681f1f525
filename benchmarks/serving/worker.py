"""The process in which a candidate answers texts."""

import importlib
import itertools
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import workers
from benchmarks.serving import layout
from benchmarks.serving.candidates import CANDIDATES, Answer, Answers


class Start(NamedTuple):
    """How long it took until the first answer.

    Attributes:
        seconds: from the start of the process.
        load_seconds: of these, from when the libraries were imported.
    """

    seconds: float
    load_seconds: float


class Pass(NamedTuple):
    """What answering all texts took.

    Attributes:
        seconds: of the clock, of each batch.
        cpu_seconds: of all threads and batches together.
        resident_mib: memory of the process after it.
    """

    seconds: list[float]
    cpu_seconds: float
    resident_mib: float


class Worker(workers.Worker):
    """The parent's end of a worker.

    Args:
        name: of one of `CANDIDATES`.
        folder: where the models are, and the texts.
        precision: what it computes in.
    """

    def __init__(self, name: str, folder: str, precision: layout.Precision):
        arguments = {"name": name, "folder": folder, "precision": precision}
        super().__init__(name, "benchmarks.serving.worker", arguments)

    def start(self) -> Start:
        """Waits for the first answer."""
        return Start(*self.ask(["start"]))

    def answer(self, batch_size: int) -> Answers:
        """Returns the answers to all texts, asked in batches."""
        labels, probabilities = self.ask(["answer", batch_size])
        return Answers(labels, np.array(probabilities, np.float32))

    def time(self, batch_size: int) -> Pass:
        """Returns how long the answers to all texts take, asked in batches."""
        return Pass(*self.ask(["time", batch_size]))


def _make_answerer(
    name: str, folder: str, precision: layout.Precision
) -> Callable[[list[Any]], Any]:
    candidate = CANDIDATES[name]
    texts = json.loads(pathlib.Path(folder, layout.TEXTS).read_text())
    for module in candidate.imports:
        importlib.import_module(module)
    begin = time.perf_counter()
    answer = candidate.make_answer(folder, precision)
    answer(texts[:1])
    start = Start(_seconds_of_process(), time.perf_counter() - begin)
    questions = {
        "start": lambda: start,
        "answer": lambda batch_size: _answer_all(answer, texts, batch_size),
        "time": lambda batch_size: _time_all(answer, texts, batch_size),
    }
    return lambda question: questions[question[0]](*question[1:])


def _answer_all(answer: Answer, texts: Sequence[str], batch_size: int) -> Answers:
    labels, probabilities = zip(*map(answer, _batches(texts, batch_size)), strict=True)
    return Answers(
        list(itertools.chain.from_iterable(labels)), np.concatenate(probabilities).tolist()
    )


def _time_all(answer: Answer, texts: Sequence[str], batch_size: int) -> Pass:
    times = [
        workers.time_step(lambda batch=batch: answer(batch))
        for batch in _batches(texts, batch_size)
    ]
    seconds, cpu_seconds = zip(*times, strict=True)
    return Pass(seconds, sum(cpu_seconds), workers.memory_mib("VmRSS"))


def _batches(texts: Sequence[str], batch_size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), batch_size):
        yield texts[start : start + batch_size]


def _seconds_of_process() -> float:
    """Returns how long ago this process started (Linux)."""
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    workers.answer(lambda: _make_answerer(**json.loads(sys.argv[1])))
