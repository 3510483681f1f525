"""Times a pre-training step of BERT-large against one of ALBERT-large, in our code and in transformers.

Usage:
    make .venv-all/installed && . .venv-all/bin/activate
    python -m benchmarks.bert_against_albert

The two models of an implementation take turns, each in a process of its own; ratios are medians of the
ratios within a round. A step is that of `benchmarks.pretraining`. Parameters are counted as the paper
does. Gradients are what data parallelism adds up over the replicas in each step: 4 bytes for each
parameter of the model with its heads, in both precisions. Peak memory is the resident set of the whole
process, libraries included.

The paper trains BERT-large on a TPU pod, where ALBERT-large has 1.7 times its throughput. One machine
shows what of it is due to computation and the update; docs/paper.md has the rest.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from albert_tf import command_line
from albert_tf.options import option
from benchmarks.harness import (
    Rounds,
    check_candidates,
    markdown_table,
    median,
    processor,
    ratio,
    take_turns,
)
from benchmarks.pretraining.__main__ import StepOptions
from benchmarks.pretraining.candidates import OURS, STEPS, Workload

BERT, ALBERT = "BERT", "ALBERT"
# Both models in each implementation.
CANDIDATES = {
    f"{model}, {name}": candidate for model in (BERT, ALBERT) for name, candidate in STEPS.items()
}
# The strongest form of transformers that need not be compiled for many minutes.
_STRONGEST = "transformers gathered"
_HEADER = ("", "parameters", "ms", "times ALBERT", "CPU ms", "peak MiB", "gradients, MB")
_BYTES_OF_GRADIENT = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertAgainstAlbertOptions(StepOptions):
    """The options of this benchmark."""

    size: Literal["base", "large"] = option("Size of both models.", "large")
    shapes: tuple[str, ...] = option("Batch sizes and lengths.", ("4x128", "1x512"))
    candidates: tuple[str, ...] = option("Implementations to time.", (OURS, _STRONGEST))
    rounds: int = option("Number of turns of each model.", 3, least=1)
    steps: int = option("Least number of steps of a turn.", 2, least=1)


def table(workloads: Mapping[str, Workload], results: Rounds) -> str:
    """Returns the table of a workload."""
    # Not in the processes of the candidates, whose memory is reported.
    from benchmarks.parameters import count_parameters

    counts = {model: count_parameters(workloads[model].albert_config) for model in workloads}
    rows = []
    for name, rounds in results.items():
        model, _, implementation = name.partition(", ")
        cells = [name, f"{counts[model].in_paper / 1e6:,.1f}M", f"{1000 * median(rounds):,.0f}"]
        cells.append(f"{ratio(results, name, f'{ALBERT}, {implementation}'):.2f}")
        cells += [f"{1000 * median(rounds, 'cpu_seconds'):,.0f}", f"{rounds[-1].peak_mib:,.0f}"]
        rows.append([*cells, f"{counts[model].total * _BYTES_OF_GRADIENT / 1e6:,.1f}"])
    return markdown_table(_HEADER, rows)


def _main(options: BertAgainstAlbertOptions) -> None:
    check_candidates(STEPS, options.candidates)
    print(f"{processor()}\n")
    berts, alberts = (
        options.workloads(preset) for preset in (f"bert_{options.size}", f"{options.size}_v2")
    )
    for pair in zip(berts, alberts, strict=True):
        workloads, results = dict(zip((BERT, ALBERT), pair, strict=True)), {}
        # Both models of one implementation after the other: four would need more than 20 GB of memory.
        for name in options.candidates:
            arguments = {
                f"{model}, {name}": {"workload": dataclasses.asdict(workload)}
                for model, workload in workloads.items()
            }
            module = "benchmarks.bert_against_albert"
            results |= take_turns(module, arguments, options.rounds, options.steps)
        print(f"{options.size}, {pair[0]}\n\n{table(workloads, results)}\n", flush=True)


if __name__ == "__main__":
    command_line.run(BertAgainstAlbertOptions, _main)
