"""Times a pre-training step of BERT-large against one of ALBERT-large, in our code and in transformers.

Usage:
    pip install -r requirements-benchmarks.txt
    python -m benchmarks.bert_against_albert

The two models of an implementation take turns, each in a process of its own; ratios are medians of the
ratios within a round. A step is that of `benchmarks.pretraining`: forward pass, backward pass with
both losses, clipping and update, without dropout. Parameters are counted as the paper does. Gradients are
what data parallelism adds up over the replicas in each step: 4 bytes for each parameter of the model with
its heads, in both precisions. Peak memory is the resident set of the whole process, libraries included.

The paper trains BERT-large on a TPU pod, where ALBERT-large has 1.7 times its throughput. One machine
shows what of it is due to computation and the update; docs/paper.md has the rest.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from albert_tf import command_line
from albert_tf.config import AlbertConfig
from albert_tf.options import check_ranges, option
from benchmarks.harness import (
    KERAS_POLICIES,
    Round,
    check_candidates,
    check_choices,
    markdown_table,
    parse_shapes,
    processor,
    take_turns,
    timing_cells,
)
from benchmarks.pretraining.candidates import OURS, STEPS, Workload

BERT, ALBERT = "BERT", "ALBERT"
# Both models in each implementation.
CANDIDATES = {
    f"{model}, {name}": candidate for model in (BERT, ALBERT) for name, candidate in STEPS.items()
}
# The strongest form of transformers that need not be compiled for many minutes.
_STRONGEST = "transformers gathered"
_HEADER = (
    *("", "parameters", "ms", "times ALBERT", "CPU ms"),
    *("peak MiB", "gradients, MB"),
)
_BYTES_OF_GRADIENT = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertAgainstAlbertOptions:
    """The options of this benchmark."""

    size: Literal["base", "large"] = option("Size of both models.", "large")
    shapes: tuple[str, ...] = option("Batch sizes and lengths.", ("4x128", "1x512"))
    precisions: tuple[str, ...] = option("fp32, bf16 or both.", tuple(KERAS_POLICIES))
    candidates: tuple[str, ...] = option("Implementations to time.", (OURS, _STRONGEST))
    rounds: int = option("Number of turns of each model.", 3, least=1)
    steps: int = option("Least number of steps of a turn.", 2, least=1)

    def __post_init__(self):
        check_choices("precisions", self.precisions, KERAS_POLICIES)
        check_ranges(self)
        parse_shapes(self.shapes)

    def workloads(self) -> Iterator[dict[str, Workload]]:
        """Yields the workload of each model, for each precision and shape."""
        configs = {
            model: AlbertConfig.from_preset(
                preset, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
            )
            for model, preset in ((BERT, f"bert_{self.size}"), (ALBERT, f"{self.size}_v2"))
        }
        for precision in self.precisions:
            for batch_size, length in parse_shapes(self.shapes):
                yield {
                    model: Workload(config.to_dict(), batch_size, length, precision)
                    for model, config in configs.items()
                }


def measure(
    workloads: Mapping[str, Workload], candidates: Sequence[str], rounds: int, steps: int
) -> dict[str, list[Round]]:
    """Runs both models of each implementation in turn, one implementation after the other.

    Four models at once would need more than 20 GB of memory.
    """
    results = {}
    for name in candidates:
        arguments = {
            f"{model}, {name}": {"workload": dataclasses.asdict(workload)}
            for model, workload in workloads.items()
        }
        results |= take_turns("benchmarks.bert_against_albert", arguments, rounds, steps)
    return results


def table(workloads: Mapping[str, Workload], results: Mapping[str, Sequence[Round]]) -> str:
    """Returns the table of a workload."""
    # Not in the processes of the candidates, whose memory is reported.
    from benchmarks.parameters import count_parameters

    counts = {
        model: count_parameters(workload.albert_config) for model, workload in workloads.items()
    }
    rows = []
    for name in results:
        model, _, implementation = name.partition(", ")
        milliseconds, times, cpu_milliseconds, peak_mib = timing_cells(
            results, name, f"{ALBERT}, {implementation}"
        )
        gradients = counts[model].total * _BYTES_OF_GRADIENT / 1e6
        cells = [name, f"{counts[model].in_paper / 1e6:,.1f}M", milliseconds, times]
        rows.append([*cells, cpu_milliseconds, peak_mib, f"{gradients:,.1f}"])
    return markdown_table(_HEADER, rows)


def _main(options: BertAgainstAlbertOptions) -> None:
    check_choices("candidates", options.candidates, STEPS)
    check_candidates(STEPS, options.candidates)
    print(f"{processor()}\n")
    for workloads in options.workloads():
        results = measure(workloads, options.candidates, options.rounds, options.steps)
        print(f"{options.size}, {workloads[BERT]}\n\n{table(workloads, results)}\n", flush=True)


if __name__ == "__main__":
    command_line.run(BertAgainstAlbertOptions, _main)
