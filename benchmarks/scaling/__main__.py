"""Computes how long a pre-training step takes on many devices, and what limits it.

Usage:
    python -m benchmarks.scaling --output_file=scaling.png

Operations, parameters and bytes are counted in the models themselves; speeds are flags. A step is

    compute     operations of the replica's sequences / (peak operations per second * utilisation)
    update      bytes that LAMB, and adding up micro-batches, read and write / memory bandwidth
    bandwidth   bytes that each device sends in a ring all-reduce of the gradients / bandwidth of a link
    latency     messages in a row of the all-reduces * latency of a link

one after the other, because the trainer adds up all micro-batches before the only all-reduce of
gradients. A replica splits its sequences into the fewest micro-batches whose activations fit into its
memory.

Then the command compares the speeds of the paper's models with those that operations and gradients alone
give, and computes the hours in which machines make pre-training data from a text: in a run of
`create_pretraining_data.py` on each machine, whose main process reads, or in a pipeline where all read.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from albert_tf import command_line, files
from albert_tf.config import PRESETS
from albert_tf.errors import FlagError
from albert_tf.options import check_ranges, option
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from benchmarks.harness import check_choices, markdown_table
from benchmarks.scaling import paper
from benchmarks.scaling.costs import Costs, measure
from benchmarks.scaling.steps import ClusterOptions, Step, compute_step


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalingOptions(ClusterOptions):
    """The options of this computation."""

    models: tuple[str, ...] = option("Presets.", ("xxlarge_v2", "large_v2", "bert_large"))
    devices: tuple[str, ...] = option(
        "Numbers of devices.", ("8", "16", "32", "64", "128", "256", "512")
    )
    length: int = option("Number of pieces of a sequence.", 512, least=1)
    precision: Literal["fp32", "bf16"] = option("Precision of the layers.", "bf16")
    text: float = option("Size of the text in TB.", 1.0, least=0.001)
    pieces_per_byte: float = option(
        "Pieces per byte of text. Default: of English novels.", 0.236, least=0.001
    )
    machines: tuple[str, ...] = option("Numbers of machines.", ("1", "2", "4", "8", "16"))
    cores: int = option("Number of cores of a machine.", 64, least=1)
    reading: float = option("MB of text per second that one process reads.", 89.0, least=0.001)
    making: float = option(
        "MB of text per second that one core makes into records.", 3.2, least=0.001
    )
    output_file: str | None = option("PNG file of the plot. Default: no plot.", None)

    def __post_init__(self):
        check_ranges(self)
        check_choices("models", self.models, PRESETS)
        for flag in ("devices", "machines"):
            for value in getattr(self, flag):
                if not value.isdecimal() or int(value) < 1:
                    raise FlagError(f"--{flag}: received '{value}'; expected a positive integer")
        for value in self.devices:
            if self.batch_size % int(value):
                raise FlagError(
                    f"--devices: received '{value}'; expected a divisor of --batch_size="
                    f"{self.batch_size}"
                )


Steps = Mapping[str, Mapping[int, Step]]


def compute_steps(models: Mapping[str, Costs], options: ScalingOptions) -> Steps:
    """Returns the steps of each model, by number of devices."""
    numbers = [int(devices) for devices in options.devices]
    return {
        name: {devices: compute_step(costs, devices, options) for devices in numbers}
        for name, costs in models.items()
    }


def steps_table(steps: Steps, options: ScalingOptions) -> str:
    """Returns the steps of each model on each number of devices."""
    tokens = options.text * 1e12 * options.pieces_per_byte
    updates = tokens / (options.batch_size * options.length)
    rows = []
    for name, of_model in steps.items():
        for devices, step in of_model.items():
            cells = [f"{options.batch_size // devices // step.micro_batches}"]
            cells += [f"{step.micro_batches}", *(f"{seconds:.3f}" for seconds in step[:-1])]
            cells += [f"{step.seconds:.3f}", step.limit]
            rows.append(
                [name, f"{devices}", *cells, f"{updates * step.seconds / 3600:,.0f}"],
            )
    header = ["model", "devices", "micro-batch", "micro-batches", *Step._fields[:-1]]
    return markdown_table([*header, "seconds", "limit", f"hours of {options.text:g} TB"], rows)


def costs_table(models: Mapping[str, Costs]) -> str:
    """Returns the costs of each model."""
    rows = [
        [
            name,
            f"{model.parameters / 1e6:,.1f}",
            f"{model.gradient_bytes / 1e6:,.0f}",
            f"{model.flops / 1e12:.2f}",
            f"{model.activation_bytes / 1e9:.2f}",
        ]
        for name, model in models.items()
    ]
    header = ["", "parameters (M)", "gradients (MB)", "10^12 operations per sequence"]
    return markdown_table([*header, "activations (GB per sequence)"], rows)


def hours_of_text(options: ScalingOptions, machines: int) -> tuple[float, float]:
    """Returns the hours to make data if one process of each machine reads, and if all processes do."""
    megabytes = options.text * 1e6 / machines
    making = megabytes / (options.cores * options.making)
    reading = megabytes / options.reading
    return max(making, reading) / 3600, making / 3600


def text_table(options: ScalingOptions) -> str:
    """Returns the hours to make data from the text, for each number of machines."""
    rows = [
        [machines, *(f"{hours:.1f}" for hours in hours_of_text(options, int(machines)))]
        for machines in options.machines
    ]
    return markdown_table(
        [f"machines of {options.cores} cores", "one run per machine, hours", "one pipeline"], rows
    )


def draw(steps: Steps, path: str) -> None:
    """Draws the parts of each model's steps over the number of devices, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1 + 4 * len(steps), 3.6), dpi=80, layout="constrained")
    panels = figure.subplots(1, len(steps), sharey=True, squeeze=False)[0]
    for axes, (name, of_model) in zip(panels, steps.items(), strict=True):
        devices = list(of_model)
        for part in Step._fields[:-1]:
            seconds = [getattr(step, part) for step in of_model.values()]
            axes.plot(devices, seconds, ".-", label=part, alpha=0.8)
        axes.plot(devices, [step.seconds for step in of_model.values()], "k.-", label="step")
        axes.set(title=name, xlabel="devices", xscale="log", yscale="log")
        axes.set_xticks(devices, [str(number) for number in devices], minor=False)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("seconds")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    files.write_picture(path, figure)


def _measure_all(presets: Sequence[str], options: ScalingOptions, **more) -> dict[str, Costs]:
    models = {}
    delay = SECONDS_WITHOUT_PROGRESS
    with Progress("counting", "models", len(presets), delay=delay) as progress:
        for name in presets:
            models[name] = measure(name, options.length, options.precision, **more)
            progress.update()
    return models


def _main(options: ScalingOptions) -> None:
    models = _measure_all(options.models, options)
    steps = compute_steps(models, options)
    print(costs_table(models), end="\n\n")
    print(steps_table(steps, options), end="\n\n")
    of_paper = _measure_all(list(paper.SPEEDS), options, memory=False)
    print(paper.paper_tables(of_paper), end="\n\n")
    print(text_table(options))
    if options.output_file:
        draw(steps, options.output_file)
        print(f"\nwrote {options.output_file}")


if __name__ == "__main__":
    command_line.run(ScalingOptions, _main)
