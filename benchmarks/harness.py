"""How every benchmark compares implementations: candidates, their processes, rounds and tables.

Each candidate runs in a process of its own, so that none shares another's memory, threads or settings.
Candidates take turns, round after round, and a ratio is the median of the ratios within a round: noise
that lasts longer than a round falls on all of them alike.

A benchmark's module has a table `CANDIDATES`. It imports its candidates' libraries inside of functions,
because the process of one candidate imports the module, too, and its memory is reported.
"""

import contextlib
import dataclasses
import importlib
import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

ROOT = pathlib.Path(__file__).parents[1]
# A process that slept while others had their turns begins with all of its threads on one core, until the
# kernel spreads them.
_LEAST_SECONDS = 0.2

# Names of the tables -> Keras's dtype policies.
KERAS_POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16"}
# To which all candidates clip the global norm of their gradients.
CLIP_NORM = 1.0


class Round(NamedTuple):
    """Medians of a round's steps, of all threads, and the largest resident set of the process so far."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


# Does what is timed once, and waits until it is done.
Step = Callable[[], object]
# Candidate -> its rounds, in order.
Rounds = Mapping[str, Sequence[Round]]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An implementation and one way to run it.

    `start` is called in the candidate's process with `arguments` and those of the worker; it returns a
    function from a question to its answer, e.g. what `timed` makes of a step.
    """

    start: Callable[..., Callable[[Any], Any]]
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    packages: Sequence[str] = ()  # in addition to `requirements.txt`
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


def check_choices(flag: str, received: Iterable[str], known: Collection[str]) -> None:
    """Raises `InputError` if a value of a flag is not among the known ones."""
    from albert_tf.errors import InputError

    for name in received:
        if name not in known:
            raise InputError(f"--{flag}: received '{name}'; expected {' or '.join(known)}")


def check_candidates(known: Mapping[str, Candidate], names: Iterable[str]) -> None:
    """Raises `InputError` if a candidate is unknown, `InputError` if a package is missing."""
    from albert_tf.errors import InputError

    check_choices("candidates", names, known)
    for name in names:
        for package in known[name].packages:
            if importlib.util.find_spec(package) is None:
                raise InputError(
                    f"{name} needs the package {package}; install it with "
                    "`make .venv-all/installed`, or leave it out of --candidates"
                )


def parse_shapes(shapes: Iterable[str]) -> list[tuple[int, int]]:
    """Returns the batch size and length of each value of `--shapes`, e.g. `8x128`."""
    from albert_tf.errors import InputError

    for shape in shapes:
        if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", shape):
            raise InputError(f"--shapes: received '{shape}'; expected e.g. 8x128, batch x length")
    return [tuple(map(int, shape.split("x"))) for shape in shapes]


class Worker:
    """A candidate of a module in a process of its own, which ends with the `with` statement.

    The arguments are further ones of the candidate's `start`, JSON values.
    """

    def __init__(self, module: str, name: str, arguments: Mapping[str, Any]):
        self._name = name
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, as it lives as long as the process
        candidate = importlib.import_module(module).CANDIDATES[name]
        settings = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.harness", module, name, json.dumps(arguments)],
            cwd=ROOT,
            env=os.environ | settings | candidate.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def run(self, steps: int) -> Round:
        """Runs a round of at least `steps` steps; the first round starts the process and compiles."""
        return Round(*self.ask(steps))

    def ask(self, question: Any) -> Any:
        """Sends a question and returns the answer; both are JSON values.

        Raises:
            StoppedError: the process ended.
        """
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            from albert_tf.errors import StoppedError

            raise StoppedError(f"{self._name} ended: {self._last_words()}")
        return json.loads(line)

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = [line for line in self._log.read().split("\n") if line.strip()]
        return f"{lines[-1] if lines else 'no message'} (exit code {code})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception) -> None:
        self._process.kill()
        # Not `communicate`: processes that it started, such as OpenVINO's telemetry, keep the pipe open.
        with self._process:
            self._log.close()


def take_turns(
    module: str,
    arguments: Mapping[str, Mapping[str, Any]],
    rounds: int,
    steps: int,
    start_together: bool = False,
) -> dict[str, list[Round]]:
    """Runs candidates of a module, with arguments for each, in turn, and returns the rounds of each.

    A turn has at least `steps` steps. Candidates start one after another, so that none is timed during a
    start; or all together before the first turn, if memory and cores suffice.
    """
    from albert_tf.progress import Progress

    progress = Progress("timing", "turns", (1 + rounds) * len(arguments))
    with contextlib.ExitStack() as stack, progress:
        workers = {}
        for name, given in arguments.items():
            workers[name] = stack.enter_context(Worker(module, name, given))
            if not start_together:
                workers[name].run(1)
        for worker in workers.values():
            if start_together:
                worker.run(1)
            progress.update()
        results = {name: [] for name in workers}
        for _ in range(rounds):
            for name, worker in workers.items():
                results[name].append(worker.run(steps))
                progress.update()
    return results


def ratio(results: Rounds, name: str, other: str, of: str = "seconds") -> float:
    """Returns how many times as long as `other` a candidate takes: the median over the rounds."""
    pairs = zip(results[name], results[other], strict=True)
    return statistics.median(getattr(one, of) / getattr(two, of) for one, two in pairs)


def median(rounds: Sequence[Round], of: str = "seconds") -> float:
    """Returns the median of an attribute of `Round`."""
    return statistics.median(getattr(one, of) for one in rounds)


def find_slow(what: str, results: Rounds, ours: str, goals: Mapping[str, float]) -> Iterator[str]:
    """Yields a sentence for each missed goal: how many times as fast as another ours has to be."""
    for name, goal in goals.items():
        if name in results and (times := ratio(results, name, ours)) < goal:
            yield f"{what}: {ours} is {times:.2f} times as fast as {name}; the goal is {goal:.2f}"


def timed(*timers: tuple[float, Step] | Step) -> Callable[[int], Round]:
    """Makes a function that runs a number of steps and returns a `Round`, the weighted sum of all timers.

    A step without a weight counts once.
    """
    weighted = [timer if isinstance(timer, tuple) else (1, timer) for timer in timers]
    for _, step in weighted:
        step()  # compiles
        step()  # some make their optimizer's state in the first step

    def run(steps: int) -> Round:
        times = [(weight, *_median_times(step, steps)) for weight, step in weighted]
        seconds = sum(weight * wall for weight, wall, _ in times)
        cpu_seconds = sum(weight * cpu for weight, _, cpu in times)
        return Round(seconds, cpu_seconds, memory_mib("VmHWM"))

    return run


def _median_times(step: Step, steps: int) -> tuple[float, float]:
    end = time.perf_counter() + _LEAST_SECONDS
    times = []
    while len(times) < steps or time.perf_counter() < end:
        times.append(time_step(step))
    return tuple(map(statistics.median, zip(*times, strict=True)))


def time_step(step: Step) -> tuple[float, float]:
    """Returns the wall-clock and the CPU seconds of one step."""
    start, cpu_start = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - start, time.process_time() - cpu_start


def memory_mib(kind: str) -> float:
    """Returns the present (`VmRSS`) or largest (`VmHWM`) resident set of this process (Linux)."""
    status = pathlib.Path("/proc/self/status").read_text()
    (line,) = (line for line in status.split("\n") if line.startswith(f"{kind}:"))
    return int(line.split()[1]) / 1024


def processor() -> str:
    """Returns the processor's name, its widest vector extension and the number of cores (Linux)."""
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().split("\n"):
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = set(fields.get("flags", "").split())
    extensions = {"amx_tile": "AMX", "avx512f": "AVX-512", "avx2": "AVX2"}
    widest = next((name for flag, name in extensions.items() if flag in flags), "no AVX2")
    # A virtual machine may hide the name, not the family and model.
    numbers = f"family {fields.get('cpu family')}, model {fields.get('model')}"
    return f"{fields.get('model name')} ({numbers}, {widest}), {os.cpu_count()} cores"


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1
) -> str:
    """Returns a table with columns of even width; all but the first `text_columns` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = [
        ":" + "-" * (width - 1) if index < text_columns else "-" * (width - 1) + ":"
        for index, width in enumerate(widths)
    ]
    lines = [
        [
            cell.ljust(width) if index < text_columns else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (header, *rows)
    ]
    lines.insert(1, rule)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _serve(module: str, name: str, arguments: str) -> None:
    # The answers have standard output to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    candidate = importlib.import_module(module).CANDIDATES[name]
    answer = candidate.start(**candidate.arguments, **json.loads(arguments))
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
