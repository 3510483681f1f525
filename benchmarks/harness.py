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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import psutil

_ROOT = pathlib.Path(__file__).parents[1]
# A process that slept while others had their turns begins with all of its threads on one core, until the
# kernel spreads them.
_LEAST_SECONDS = 0.2
_SECONDS_BETWEEN_SAMPLES = 0.2
_MIB = 2**20

# Names of the tables -> Keras's dtype policies.
KERAS_POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16"}


class Round(NamedTuple):
    """Times of one round.

    Attributes:
        seconds: wall-clock time, the median of the round's steps.
        cpu_seconds: CPU time of all threads, likewise.
        peak_mib: the largest resident set of the process so far.
    """

    seconds: float
    cpu_seconds: float
    peak_mib: float


# Candidate -> its rounds, in order.
Rounds = Mapping[str, Sequence[Round]]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An implementation and one way to run it.

    Attributes:
        start: called in the candidate's process with `arguments` and those of the worker; returns a
            function from a question to its answer, e.g. what `timed` makes of a step.
        arguments: keyword arguments of `start`.
        packages: packages that it needs in addition to `requirements.txt`.
        environment: environment variables of its process.
    """

    start: Callable[..., Callable[[Any], Any]]
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    packages: Sequence[str] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


TORCH = ("torch", "transformers")


def check_choices(flag: str, received: Iterable[str], known: Collection[str]) -> None:
    """Checks the values of a flag.

    Raises:
        FlagError: a value is not among the known ones.
    """
    from albert_tf.errors import FlagError

    for name in received:
        if name not in known:
            raise FlagError(f"--{flag}: received '{name}'; expected {' or '.join(known)}")


def check_candidates(known: Mapping[str, Candidate], names: Iterable[str]) -> None:
    """Checks that candidates are known and their packages installed.

    Raises:
        FlagError: a candidate is unknown.
        InputError: a package is missing.
    """
    from albert_tf.errors import InputError

    check_choices("candidates", names, known)
    for name in names:
        for package in known[name].packages:
            if importlib.util.find_spec(package) is None:
                raise InputError(
                    f"{name} needs the package {package}; install it with "
                    "`pip install -r requirements-benchmarks.txt`, or leave it out of --candidates"
                )


def parse_shapes(shapes: Iterable[str]) -> list[tuple[int, int]]:
    """Returns the batch size and length of each value of `--shapes`, e.g. `8x128`.

    Raises:
        FlagError: a value is not of this form.
    """
    from albert_tf.errors import FlagError

    for shape in shapes:
        if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", shape):
            raise FlagError(
                f"--shapes: received '{shape}'; expected batch size and length, as in 8x128"
            )
    return [tuple(map(int, shape.split("x"))) for shape in shapes]


class Worker:
    """A candidate in a process of its own, which ends with the `with` statement.

    Args:
        module: the benchmark, whose `CANDIDATES` has the candidate.
        name: the candidate.
        arguments: keyword arguments for the candidate's `start`, JSON values.
    """

    def __init__(self, module: str, name: str, arguments: Mapping[str, Any]):
        self._name = name
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, as it lives as long as the process
        candidate = importlib.import_module(module).CANDIDATES[name]
        settings = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.harness", module, name, json.dumps(arguments)],
            cwd=_ROOT,
            env=os.environ | settings | candidate.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def run(self, steps: int) -> Round:
        """Runs a round of at least `steps` steps; the first round starts the process and compiles.

        Raises:
            StoppedError: the process ended.
        """
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
    module: str, arguments: Mapping[str, Mapping[str, Any]], rounds: int, steps: int
) -> dict[str, list[Round]]:
    """Runs candidates in turn.

    Args:
        module: the benchmark, whose `CANDIDATES` has the candidates.
        arguments: candidate -> arguments of its `Worker`.
        rounds: number of turns of each candidate.
        steps: least number of steps of a turn.

    Returns:
        The rounds of each candidate.
    """
    from albert_tf.progress import Progress

    progress = Progress("timing", "turns", (1 + rounds) * len(arguments))
    with contextlib.ExitStack() as stack, progress:
        workers = {}
        for name, given in arguments.items():
            workers[name] = stack.enter_context(Worker(module, name, given))
            workers[name].run(1)  # one starts after another, so that none is timed during a start
            progress.update()
        results = {name: [] for name in workers}
        for _ in range(rounds):
            for name, worker in workers.items():
                results[name].append(worker.run(steps))
                progress.update()
    return results


def ratio(results: Rounds, name: str, other: str, of: str = "seconds") -> float:
    """Returns how many times as long as `other` a candidate takes: the median over the rounds.

    Args:
        results: the rounds of both.
        name: the candidate.
        other: the candidate that it is compared with.
        of: the attribute of `Round` to compare.
    """
    pairs = zip(results[name], results[other], strict=True)
    return statistics.median(getattr(one, of) / getattr(two, of) for one, two in pairs)


def median(rounds: Sequence[Round], of: str = "seconds") -> float:
    """Returns the median of an attribute of `Round`."""
    return statistics.median(getattr(one, of) for one in rounds)


def timing_cells(results: Rounds, name: str, reference: str) -> list[str]:
    """Returns a candidate's milliseconds, ratio to a reference, CPU milliseconds and peak memory."""
    milliseconds, cpu_milliseconds = (
        1000 * median(results[name], of) for of in ("seconds", "cpu_seconds")
    )
    return [
        f"{milliseconds:,.{0 if milliseconds >= 100 else 1}f}",
        f"{ratio(results, name, reference):.2f}" if reference in results else "",
        f"{cpu_milliseconds:,.{0 if milliseconds >= 100 else 1}f}",
        f"{results[name][-1].peak_mib:,.0f}",
    ]


# Weight and step; the step waits for its own result.
Timer = tuple[float, Callable[[], Any]]


def timed(*timers: Timer | Callable[[], Any]) -> Callable[[int], Round]:
    """Makes a function that runs a number of steps and returns a `Round`, the weighted sum of all timers.

    Args:
        *timers: steps, which count once, or pairs of weight and step.
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


def _median_times(step: Callable[[], Any], steps: int) -> tuple[float, float]:
    end = time.perf_counter() + _LEAST_SECONDS
    times = []
    while len(times) < steps or time.perf_counter() < end:
        times.append(time_step(step))
    return tuple(map(statistics.median, zip(*times, strict=True)))


def time_step(step: Callable[[], Any]) -> tuple[float, float]:
    """Returns the wall-clock and the CPU seconds of one step."""
    start, cpu_start = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - start, time.process_time() - cpu_start


def memory_mib(kind: str) -> float:
    """Returns the resident set of this process (Linux).

    Args:
        kind: `VmRSS`, the present one, or `VmHWM`, the largest so far.
    """
    status = pathlib.Path("/proc/self/status").read_text()
    (line,) = (line for line in status.split("\n") if line.startswith(f"{kind}:"))
    return int(line.split()[1]) / 1024


@dataclasses.dataclass
class Usage:
    """Resources that a command and all of its descendants used, by samples.

    Attributes:
        seconds: wall-clock time.
        cpu_seconds: process id -> user and system time.
        peak_mib: the largest sum of all processes' memory, shared pages counted once.
        worker_mib: the largest memory of a grandchild that it shares with no other process.
    """

    seconds: float = 0.0
    cpu_seconds: dict[int, float] = dataclasses.field(default_factory=dict)
    peak_mib: float = 0.0
    worker_mib: float = 0.0

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
                # The script starts a server, which the workers are forked from.
                if process.pid != root.pid and process.ppid() != root.pid:
                    self.worker_mib = max(self.worker_mib, memory.uss / _MIB)
        self.peak_mib = max(self.peak_mib, total)


def watch(command: Sequence[str], output: str = os.devnull, **popen: Any) -> Usage:
    """Runs a command to its end and returns the resources that it used.

    Args:
        command: program and arguments.
        output: file for its standard output.
        **popen: more arguments of `subprocess.Popen`.

    Raises:
        StoppedError: its exit status is not 0.
    """
    usage = Usage()
    start = time.monotonic()
    with open(output, "w") as file, tempfile.TemporaryFile("w+") as log:
        process = psutil.Popen(command, stdout=file, stderr=log, **popen)
        while process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                usage.sample(process)
            time.sleep(_SECONDS_BETWEEN_SAMPLES)
        usage.seconds = time.monotonic() - start
        if process.returncode:
            from albert_tf.errors import StoppedError

            log.seek(0)
            lines = log.read().strip().split("\n")
            raise StoppedError(f"{' '.join(command[:3])} ended: {lines[-1]}")
    return usage


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
    """Returns a table with columns of even width.

    Args:
        header: name of each column.
        rows: cells of each row.
        text_columns: number of columns, from the left, that hold text; the others are right-aligned.
    """
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


def hugging_face_config(config: Any, classifier_dropout: float, **others: Any) -> Any:
    """Returns the config of `transformers` for a model of the same shape and dropout.

    Args:
        config: an `albert_tf.AlbertConfig`. One that shares nothing is BERT's.
        classifier_dropout: dropout rate before the head.
        **others: more of its values.
    """
    from transformers import AlbertConfig, BertConfig

    same = (
        *(
            "vocab_size",
            "embedding_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
        ),
        *("intermediate_size", "max_position_embeddings", "initializer_range"),
        *("hidden_dropout_prob", "attention_probs_dropout_prob"),
    )
    make = BertConfig if config.sharing == "none" else AlbertConfig
    return make(
        **{name: getattr(config, name) for name in same},
        classifier_dropout_prob=classifier_dropout,
        hidden_act="gelu_new",
        **others,
    )


# Inputs of Hugging Face's models -> ours.
HUGGING_FACE_INPUTS = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}


def torch_inputs(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a batch of ours as int64 tensors under Hugging Face's names."""
    import torch

    return {
        theirs: torch.from_numpy(batch[ours]).long() for theirs, ours in HUGGING_FACE_INPUTS.items()
    }


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
