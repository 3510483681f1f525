"""Trains on several hosts, which are network namespaces of this machine, and breaks them.

Usage, as root on Linux:
    python -m benchmarks.hosts

Each host has an address and a link of its own to a switch. The command has these parts:

curves     trains a tiny model on one device and on some hosts, and compares the losses
bytes      measures the bytes of a step on a link
links      limits the rate of a link, and compares the seconds of a step with the computed ones
latency    times all-reduces of a single number
faults     starts a long run on two hosts for each fault, and prints what each worker said, how many
           seconds after the fault it ended, and how many updates were lost; the same command then has to
           resume on healed hosts
"""

import dataclasses
import json
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import command_line
from albert_tf.config import AlbertConfig
from albert_tf.errors import FlagError, InputError
from albert_tf.options import option

with command_line.quiet_start():
    from benchmarks.parameters import count_parameters
from benchmarks.harness import check_choices, markdown_table, processor
from benchmarks.hosts.namespaces import Hosts
from benchmarks.hosts.training import (
    ENDLESS,
    MODELS,
    endless,
    newest_checkpoint,
    read_curve,
    training_command,
    write_inputs,
)
from benchmarks.hosts.workers import End, Workers, start
from benchmarks.scaling.costs import BYTES_OF_GRADIENT
from benchmarks.scaling.steps import ring_bytes

_PRESETS = {"ALBERT-large": "large_v2", "BERT-large": "bert_large"}
_STEPS_OF_CURVES = 20
_STEPS_BETWEEN_CHECKPOINTS, _STEPS_BEFORE_FAULT = 100, 250
# Least steps and seconds of a measurement.
_STEPS, _SECONDS = 3, 5.0

_FAULTS: Mapping[str, tuple[str, Callable[[Hosts, Workers], None]]] = {
    "kill": ("the chief is killed", lambda hosts, workers: workers.workers[0].process.kill()),
    "link": ("the link of host 1 is down", lambda hosts, workers: hosts.cut(1)),
    "freeze": (
        "host 1 is frozen (SIGSTOP)",
        lambda hosts, workers: workers.workers[1].process.send_signal(signal.SIGSTOP),
    ),
}


@dataclasses.dataclass(frozen=True)
class HostsOptions:
    """The options of this benchmark."""

    parts: tuple[str, ...] = option(
        "Parts to run.", ("curves", "bytes", "links", "latency", "faults")
    )
    faults: tuple[str, ...] = option("Faults to try.", tuple(_FAULTS))
    hosts: tuple[str, ...] = option("Numbers of hosts of the curves and the latency.", ("2", "4"))
    megabits: tuple[str, ...] = option(
        "Rates of the limited link in Mbit/s.", ("100", "10", "4", "1")
    )

    def __post_init__(self):
        check_choices("parts", self.parts, _PARTS)
        check_choices("faults", self.faults, _FAULTS)
        for flag in ("hosts", "megabits"):
            for value in getattr(self, flag):
                if not value.isdecimal() or int(value) < 1:
                    raise FlagError(f"--{flag}: received '{value}'; expected a positive integer")


def _compare_curves(flags: Mapping[str, Any], folder: str, options: HostsOptions) -> str:
    flags = {**flags, "num_train_steps": _STEPS_OF_CURVES}
    with Workers(
        [start(training_command({**flags, "output_dir": f"{folder}/1"}, alone=True))]
    ) as alone:
        alone.finish()
    one, rows = read_curve(f"{folder}/1"), []
    for count in options.hosts:
        command = training_command({**flags, "output_dir": f"{folder}/{count}"})
        with Hosts(int(count)) as hosts, hosts.start(command) as workers:
            workers.finish()
        other = read_curve(f"{folder}/{count}")
        difference = max(abs(other[step] / loss - 1) for step, loss in one.items())
        rows.append([f"{count} hosts", f"{len(other)}", f"{difference:.1e}"])
    return markdown_table(["", "steps", "largest relative difference from one device"], rows)


def _bytes_per_step(flags: Mapping[str, Any], folder: str, model: str) -> float:
    """Returns the bytes that a host of two sends and receives in a step."""
    flags = endless(flags, folder, model, "bytes")
    samples: list[tuple[int, int]] = []

    def is_sampled() -> bool:
        if curve := read_curve(flags["output_dir"]):
            samples.append((max(curve), hosts.bytes_on_link(0)))
        return bool(samples) and samples[-1][0] >= samples[0][0] + 50

    with Hosts(2) as hosts, hosts.start(training_command(flags)) as workers:
        workers.wait_for(is_sampled)
    steps, sent = np.subtract(samples[-1], samples[0])
    return sent / steps


def _gradient_bytes(config: AlbertConfig) -> int:
    return count_parameters(config).total * BYTES_OF_GRADIENT


def _compare_bytes(flags: Mapping[str, Any], folder: str, options: HostsOptions) -> str:
    def cells(name: str, config: AlbertConfig, measured: str) -> list[str]:
        gradients = _gradient_bytes(config)
        # A host receives as much as it sends.
        computed = 2 * ring_bytes(gradients, 2)
        return [name, f"{gradients / 1e6:,.2f}", f"{computed / 1e6:,.2f}", measured]

    rows = [
        cells(f"small {name}", config, f"{_bytes_per_step(flags, folder, name) / 1e6:,.2f}")
        for name, config in MODELS.items()
    ]
    rows += [cells(name, AlbertConfig.from_preset(preset), "") for name, preset in _PRESETS.items()]
    return markdown_table(["MB per step, 2 hosts", "gradients", "computed", "measured"], rows)


def seconds_per_step(workers: Workers, output_dir: str) -> float:
    """Times the steps of a run from its next report on."""
    before = max(read_curve(output_dir), default=0)
    reports: list[tuple[int, float]] = []

    def is_timed() -> bool:
        step = max(read_curve(output_dir), default=0)
        if step > (reports[-1][0] if reports else before):
            reports.append((step, time.monotonic()))
        return bool(reports) and (
            reports[-1][0] >= reports[0][0] + _STEPS and reports[-1][1] >= reports[0][1] + _SECONDS
        )

    workers.wait_for(is_timed)
    steps, seconds = np.subtract(reports[-1], reports[0])
    return seconds / steps


def _compare_links(flags: Mapping[str, Any], folder: str, options: HostsOptions) -> str:
    rows = []
    for model, config in MODELS.items():
        sent = ring_bytes(_gradient_bytes(config), 2)
        of_model = endless(flags, folder, model, "links")
        with Hosts(2) as hosts, hosts.start(training_command(of_model)) as workers:
            free = seconds_per_step(workers, of_model["output_dir"])
            rows.append([f"small {model}", "no limit", f"{sent / 1e6:.2f}", "", f"{free:.3f}"])
            for megabits in options.megabits:
                hosts.limit(1, int(megabits))
                computed = free + sent / (int(megabits) * 1e6 / 8)
                try:
                    measured = f"{seconds_per_step(workers, of_model['output_dir']):.3f}"
                except InputError as error:  # gradients hold up the heartbeats
                    measured = "lost"
                    print(error, file=sys.stderr)
                cells = [f"small {model}", f"{megabits} Mbit/s", f"{sent / 1e6:.2f}"]
                rows.append([*cells, f"{computed:.3f}", measured])
                print(*rows[-1], sep=", ", file=sys.stderr)
    header = ["", "link", "MB per direction", "computed seconds per step", "measured"]
    return markdown_table(header, rows, text_columns=2)


def _measure_latency(flags: Mapping[str, Any], folder: str, options: HostsOptions) -> str:
    rows = []
    for count in options.hosts:
        path = f"{folder}/latency of {count}.json"
        module = ["-m", "benchmarks.hosts.all_reduce"]
        command = [sys.executable, *module, f"--output_file={path}", "--sizes=1"]
        with Hosts(int(count)) as hosts, hosts.start(command) as workers:
            workers.finish()
        (seconds,) = json.loads(pathlib.Path(path).read_text()).values()
        messages = 2 * (int(count) - 1)
        cells = [f"{1e6 * seconds:,.0f}", f"{messages}", f"{1e6 * seconds / messages:,.0f}"]
        rows.append([f"{count} hosts", *cells])
    return markdown_table(
        ["", "microseconds of an all-reduce", "messages in a row", "of each"], rows
    )


def fault_rows(fault: str, ends: Sequence[End], lost: int) -> list[list[str]]:
    """Returns a row for each worker of a broken run.

    Args:
        fault: description of the fault, e.g. `host 1 is frozen`.
        ends: how the workers ended.
        lost: number of updates since the newest checkpoint.
    """
    return [
        [
            fault if number == 0 else "",
            f"host {number}",
            "runs on" if end.seconds is None else f"{end.seconds:.0f}",
            "" if end.status is None else str(end.status),
            end.line,
            str(lost) if number == 0 else "",
        ]
        for number, end in enumerate(ends)
    ]


def _try_fault(flags: Mapping[str, Any], output_dir: str, fault: str) -> list[list[str]]:
    """Returns a row for each worker, and one for the resumed run."""
    description, break_it = _FAULTS[fault]
    flags = {**flags, "output_dir": output_dir, "num_train_steps": ENDLESS}
    flags["save_checkpoints_steps"] = _STEPS_BETWEEN_CHECKPOINTS
    with Hosts(2) as hosts, hosts.start(training_command(flags)) as workers:
        workers.wait_for(lambda: max(read_curve(output_dir), default=0) >= _STEPS_BEFORE_FAULT)
        break_it(hosts, workers)
        ends = workers.wait(1 if fault == "freeze" else 2)
        if fault == "freeze":
            workers.workers[1].process.send_signal(signal.SIGCONT)
            thawed = workers.wait(2)[1]
            ends[1] = thawed._replace(line=f"{thawed.line} (after SIGCONT)")
    saved = newest_checkpoint(output_dir)
    rows = fault_rows(description, ends, max(read_curve(output_dir)) - saved)
    flags["num_train_steps"] = saved + _STEPS_BETWEEN_CHECKPOINTS
    with Hosts(2) as hosts, hosts.start(training_command(flags)) as workers:
        workers.finish()
    rows.append(
        ["", "both, resumed", "", "0", f"from step {saved} to {newest_checkpoint(output_dir)}", ""]
    )
    return rows


def _try_faults(flags: Mapping[str, Any], folder: str, options: HostsOptions) -> str:
    rows = []
    for fault in options.faults:
        print(f"{_FAULTS[fault][0]} ...", file=sys.stderr)
        rows += _try_fault(flags, f"{folder}/{fault}", fault)
    header = ["fault", "worker", "seconds", "status", "last line", "updates lost"]
    return markdown_table(header, rows, text_columns=5)


_PARTS: Mapping[str, Callable[[Mapping[str, Any], str, HostsOptions], str]] = {
    "curves": _compare_curves,
    "bytes": _compare_bytes,
    "links": _compare_links,
    "latency": _measure_latency,
    "faults": _try_faults,
}


def _main(options: HostsOptions) -> None:
    print(f"{processor()}\n")
    with tempfile.TemporaryDirectory() as folder:
        flags = write_inputs(folder)
        for part in options.parts:
            print(_PARTS[part](flags, folder, options), end="\n\n", flush=True)


if __name__ == "__main__":
    command_line.run(HostsOptions, _main)
