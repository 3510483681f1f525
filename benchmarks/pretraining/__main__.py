"""Times a pre-training step against Hugging Face's and KerasHub's ALBERT, and against its products.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.pretraining

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

import dataclasses
from collections.abc import Iterator, Sequence

from albert_tf import command_line
from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError, InputError
from albert_tf.options import check_ranges, option
from benchmarks.harness import (
    KERAS_POLICIES,
    Round,
    Rounds,
    check_candidates,
    check_choices,
    markdown_table,
    median,
    parse_shapes,
    processor,
    ratio,
    take_turns,
)
from benchmarks.pretraining.candidates import (
    CANDIDATES,
    OURS,
    OURS_COMPILED,
    PRODUCTS,
    Workload,
)

# How many times as long as the products a step may take.
_GOALS = {"fp32": 1.3, "bf16": 2.5}
_HEADER = (
    *("", "ms", "times ours", "CPU ms", "sequences/s", "tokens/s"),
    *("GFLOP/s", "of the ceiling", "peak MiB"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingBenchmarkOptions:
    """The options of this benchmark."""

    preset: str = option("Size of the model.", "base_v2")
    shapes: tuple[str, ...] = option("Batch sizes and lengths.", ("8x128", "2x512"))
    precisions: tuple[str, ...] = option("fp32, bf16 or both.", tuple(KERAS_POLICIES))
    candidates: tuple[str, ...] = option("Candidates to time.", tuple(CANDIDATES))
    rounds: int = option("Number of turns of each candidate.", 5, least=1)
    steps: int = option("Least number of steps of a turn.", 3, least=1)

    def __post_init__(self):
        check_choices("precisions", self.precisions, KERAS_POLICIES)
        check_ranges(self)
        parse_shapes(self.shapes)

    def workloads(self) -> Iterator[Workload]:
        """Yields a workload for each precision and shape."""
        config = AlbertConfig.from_preset(
            self.preset, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        for precision in self.precisions:
            for batch_size, length in parse_shapes(self.shapes):
                yield Workload(config.to_dict(), batch_size, length, precision)


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


def _main(options: PretrainingBenchmarkOptions) -> None:
    print(f"{processor()}\n")
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
