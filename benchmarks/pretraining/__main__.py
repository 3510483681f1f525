"""Times a pre-training step against Hugging Face's and KerasHub's ALBERT, and against its products.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.pretraining
    python -m benchmarks.pretraining --profile --shapes=8x128 --precisions=fp32

All candidates of a workload take turns, each in a process of its own; ratios are medians of the ratios
within a round. The ceiling is the time of the matrix products alone, each timed at its own shape and
precision and counted once forward and twice backward, in the fastest of TensorFlow with oneDNN,
TensorFlow without it, and PyTorch. KerasHub learns masked LM only, the others both objectives.
"transformers gathered" is PyTorch's strongest form: its head computes the masked positions only, and
AdamW is one fused operator. CPU seconds are those of all threads. Peak memory is the resident set of the
whole process, libraries and compilers included.

The command fails if the faster of our two ways, with and without XLA, is slower than another candidate,
or takes more than 1.3 times the ceiling in fp32 or 2.5 times in bf16.
"""

import collections
import dataclasses
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import command_line
from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError, InputError
from albert_tf.options import option
from benchmarks.harness import (
    KERAS_POLICIES,
    Round,
    Rounds,
    check_candidates,
    check_choices,
    markdown_table,
    median,
    processor,
    ratio,
    take_turns,
    time_step,
)
from benchmarks.pretraining.candidates import (
    CANDIDATES,
    OURS,
    OURS_COMPILED,
    PRODUCTS,
    Step,
    Workload,
    albert_tf_step,
)

# How many times as long as the products a step may take.
_GOALS = {"fp32": 1.3, "bf16": 2.5}
_HEADER = (
    *("", "ms", "times ours", "CPU ms", "sequences/s", "tokens/s"),
    *("GFLOP/s", "of the ceiling", "peak MiB"),
)
# Operators that run others, which are counted themselves.
_CONTAINERS = {"PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingBenchmarkOptions:
    """The options of this benchmark."""

    preset: str = option("Size of the model.", "base_v2")
    shapes: tuple[str, ...] = option("Batch sizes and lengths.", ("8x128", "2x512"))
    precisions: tuple[str, ...] = option("fp32, bf16 or both.", tuple(KERAS_POLICIES))
    candidates: tuple[str, ...] = option("Candidates to time.", tuple(CANDIDATES))
    rounds: int = option("Number of turns of each candidate.", 5)
    steps: int = option("Least number of steps of a turn.", 3)
    profile: bool = option(
        "Instead of timing candidates, show which kinds of operators our step spends its time in.",
        False,
    )

    def __post_init__(self):
        check_choices("precisions", self.precisions, KERAS_POLICIES)
        for name in ("rounds", "steps"):
            if getattr(self, name) < 1:
                raise FlagError(f"--{name}={getattr(self, name)}: expected at least 1")
        for shape in self.shapes:
            if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", shape):
                raise FlagError(
                    f"--shapes: received '{shape}'; expected batch size and length, as in 8x128"
                )

    def workloads(self) -> Iterator[Workload]:
        """Yields a workload for each precision and shape."""
        config = AlbertConfig.from_preset(
            self.preset, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        for precision in self.precisions:
            for shape in self.shapes:
                yield Workload(config.to_dict(), *map(int, shape.split("x")), precision)


def measure(
    workload: Workload, candidates: Sequence[str], rounds: int, steps: int
) -> dict[str, list[Round]]:
    """Runs candidates in turn and returns the rounds of each."""
    given = {"workload": dataclasses.asdict(workload)}
    arguments = dict.fromkeys(candidates, given)
    return take_turns("benchmarks.pretraining.candidates", arguments, rounds, steps)


def _fastest(results: Rounds, names: Sequence[str]) -> str:
    return min((name for name in names if name in results), key=lambda name: median(results[name]))


def find_misses(workload: Workload, results: Rounds) -> Iterator[str]:
    """Yields a sentence for each missed goal."""
    ours = _fastest(results, (OURS, OURS_COMPILED))
    for name in results:
        if not name.startswith(OURS) and name not in PRODUCTS:
            times = ratio(results, name, ours)
            if times < 1.0:
                yield f"{workload}: {name} takes {times:.2f} times as long as {ours}"
    times, goal = ratio(results, ours, _fastest(results, PRODUCTS)), _GOALS[workload.precision]
    if times > goal:
        yield f"{workload}: {ours} takes {times:.2f} times as long as the products; the goal is {goal}"


def table(workload: Workload, results: Rounds) -> str:
    """Returns the table of a workload."""
    ceiling = _fastest(results, PRODUCTS)
    return markdown_table(_HEADER, [_cells(workload, results, name, ceiling) for name in results])


def _cells(workload: Workload, results: Rounds, name: str, ceiling: str) -> list[str]:
    seconds = median(results[name])
    sequences = workload.batch_size / seconds
    return [
        name,
        f"{1000 * seconds:,.0f}",
        f"{ratio(results, name, OURS):.2f}" if OURS in results else "",
        f"{1000 * median(results[name], 'cpu_seconds'):,.0f}",
        f"{sequences:.2f}",
        f"{sequences * workload.length:,.0f}",
        f"{workload.flops / seconds / 1e9:,.0f}",
        f"{100 / ratio(results, name, ceiling):.0f} %",
        "" if name in PRODUCTS else f"{results[name][-1].peak_mib:,.0f}",
    ]


def profile(step: Step, steps: int) -> dict[str, tuple[float, float]]:
    """Profiles a compiled step.

    Two operators that run at once both count, so the sum is more than the step takes.

    Returns:
        Kind of operator -> seconds and calls per step, the longest first.
    """
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(steps):
                step()
        (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
        events = list(_operators(path.read_bytes()))
    seconds, calls = collections.Counter(), collections.Counter()
    for kind, duration in events:
        seconds[kind] += duration / steps
        calls[kind] += 1 / steps
    return {kind: (duration, calls[kind]) for kind, duration in seconds.most_common()}


def _operators(content: bytes) -> Iterator[tuple[str, float]]:
    """Yields kind and seconds of each operator that the profiler saw on the host."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    for plane in xplane_pb2.XSpace.FromString(content).planes:
        for line in plane.lines:
            for event in line.events:
                # An operator is called `name:kind`; C++ scopes have `::` in their names.
                name, _, kind = plane.event_metadata[event.metadata_id].name.partition(":")
                if name and kind.lstrip("_").isidentifier() and kind not in _CONTAINERS:
                    yield kind.removeprefix("_Mkl"), event.duration_ps / 1e12  # oneDNN's name


def profile_table(operators: Mapping[str, tuple[float, float]], rows: int = 15) -> str:
    """Returns a table of the kinds of operators that take longest, and of all others together."""
    shown = list(operators.items())
    if len(shown) > rows:
        others = zip(*(of_kind for _, of_kind in shown[rows:]), strict=True)
        shown = [*shown[:rows], ("others", tuple(map(sum, others)))]
    total = sum(seconds for seconds, _ in operators.values())
    cells = [
        [kind, f"{1000 * seconds:.1f}", f"{100 * seconds / total:.1f} %", f"{calls:.0f}"]
        for kind, (seconds, calls) in shown
    ]
    return markdown_table(["", "ms", "share", "calls"], cells)


def _show_profile(workload: Workload, options: PretrainingBenchmarkOptions) -> None:
    step = albert_tf_step(workload)
    step()
    step()
    seconds, _ = min(time_step(step) for _ in range(options.steps))
    print(f"{OURS}, {options.preset}, {workload}: {1000 * seconds:,.0f} ms per step\n")
    print(profile_table(profile(step, options.steps)), end="\n\n", flush=True)


def _main(options: PretrainingBenchmarkOptions) -> None:
    print(f"{processor()}\n")
    if options.profile:
        for workload in options.workloads():
            _show_profile(workload, options)
        return
    check_candidates(CANDIDATES, options.candidates)
    if not set(options.candidates) & set(PRODUCTS):
        raise FlagError(f"--candidates: expected one of {', '.join(PRODUCTS)} among them")
    misses = []
    for workload in options.workloads():
        results = measure(workload, options.candidates, options.rounds, options.steps)
        print(f"{options.preset}, {workload}, {workload.predictions} predictions\n")
        print(table(workload, results), end="\n\n", flush=True)
        if OURS in results or OURS_COMPILED in results:
            misses.extend(find_misses(workload, results))
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(PretrainingBenchmarkOptions, _main)
