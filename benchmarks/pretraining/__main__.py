"""Times a pre-training step against Hugging Face's and KerasHub's ALBERT, and against its products.

Usage:
    make .venv-all/installed && . .venv-all/bin/activate
    python -m benchmarks.pretraining

All candidates of a workload take turns, each in a process of its own; ratios are medians of the ratios
within a round. The ceiling is the time of the matrix products alone, each timed at its own shape and
precision, in the fastest of TensorFlow with oneDNN, TensorFlow without it, and PyTorch. KerasHub learns
masked LM only, the others both objectives. "transformers gathered" is PyTorch's strongest form. Peak
memory is the resident set of the whole process, libraries and compilers included.

The command fails if the faster of our two ways, with and without XLA, is slower than another candidate,
or takes more than 1.3 times the ceiling in fp32 or 2.5 times in bf16.
"""

import dataclasses
from collections.abc import Iterator, Sequence

from albert_tf import command_line
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from benchmarks.harness import (
    KERAS_POLICIES,
    Rounds,
    check_candidates,
    check_choices,
    find_slow,
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
class StepOptions:
    """The options of benchmarks of a pre-training step."""

    preset: str = option("Size of the model, or a model with a config.", "base_v2")
    shapes: tuple[str, ...] = option("Batch sizes and lengths.", ("8x128", "2x512"))
    precisions: tuple[str, ...] = option("fp32, bf16 or both.", tuple(KERAS_POLICIES))
    rounds: int = option("Number of turns of each candidate.", 5, least=1)
    steps: int = option("Least number of steps of a turn.", 3, least=1)

    def __post_init__(self):
        check_choices("precisions", self.precisions, KERAS_POLICIES)
        check_ranges(self)
        parse_shapes(self.shapes)

    def workloads(self) -> Iterator[Workload]:
        """Yields a workload, whose model has no dropout, for each precision and shape."""
        if self.preset in PRESETS:
            config = AlbertConfig.from_preset(self.preset)
        else:
            config = StoredModel.find(self.preset).config
        config = dataclasses.replace(
            config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        for precision in self.precisions:
            for batch_size, length in parse_shapes(self.shapes):
                yield Workload(config.to_dict(), batch_size, length, precision)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingBenchmarkOptions(StepOptions):
    """The options of this benchmark."""

    candidates: tuple[str, ...] = option("Candidates to time.", tuple(CANDIDATES))


def _fastest(results: Rounds, names: Sequence[str]) -> str:
    return min((name for name in names if name in results), key=lambda name: median(results[name]))


def find_misses(workload: Workload, results: Rounds) -> Iterator[str]:
    """Yields a sentence for each missed goal."""
    others = [name for name in results if not name.startswith(OURS) and name not in PRODUCTS]
    goals = dict.fromkeys(others, 1.0)
    goals[_fastest(results, PRODUCTS)] = 1 / _GOALS[workload.precision]
    yield from find_slow(str(workload), results, _fastest(results, (OURS, OURS_COMPILED)), goals)


def table(workload: Workload, results: Rounds) -> str:
    """Returns the table of a workload."""
    ceiling, rows = _fastest(results, PRODUCTS), []
    for name, rounds in results.items():
        seconds = median(rounds)
        sequences = workload.batch_size / seconds
        rows.append(
            [
                name,
                f"{1000 * seconds:,.0f}",
                f"{ratio(results, name, OURS):.2f}" if OURS in results else "",
                f"{1000 * median(rounds, 'cpu_seconds'):,.0f}",
                f"{sequences:.2f}",
                f"{sequences * workload.length:,.0f}",
                f"{workload.flops / seconds / 1e9:,.0f}",
                f"{100 / ratio(results, name, ceiling):.0f} %",
                "" if name in PRODUCTS else f"{rounds[-1].peak_mib:,.0f}",
            ]
        )
    return markdown_table(_HEADER, rows)


def _main(options: PretrainingBenchmarkOptions) -> None:
    print(f"{processor()}\n")
    check_candidates(CANDIDATES, options.candidates)
    if not set(options.candidates) & set(PRODUCTS):
        raise InputError(f"--candidates: expected one of {', '.join(PRODUCTS)} among them")
    module, misses = "benchmarks.pretraining.candidates", []
    for workload in options.workloads():
        given = {"workload": dataclasses.asdict(workload)}
        arguments = dict.fromkeys(options.candidates, given)
        results = take_turns(module, arguments, options.rounds, options.steps)
        print(f"{options.preset}, {workload}, {workload.predictions} predictions\n")
        print(table(workload, results), end="\n\n", flush=True)
        if OURS in results or OURS_COMPILED in results:
            misses.extend(find_misses(workload, results))
    if misses:
        raise InputError("; ".join(misses))


if __name__ == "__main__":
    command_line.run(PretrainingBenchmarkOptions, _main)
