"""Trains on several hosts, which are network namespaces of this machine, and breaks them.

Usage, as root on Linux:
    python -m benchmarks.hosts

Each host has an address and a link of its own to a switch. The command trains a tiny model on one device
and on 2 and 4 hosts, and compares the curves. Then it starts a long run on two hosts for each fault, and
prints what each worker said, how many seconds after the fault it ended, and which updates were lost. The
same command then has to resume on healed hosts. Finally it measures the bytes of a step on a link.
"""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from albert_tf import command_line
from albert_tf.config import AlbertConfig
from albert_tf.data.record_spec import pretraining_record
from albert_tf.data.record_writing import write_records
from albert_tf.errors import InputError
from albert_tf.options import option
from benchmarks.harness import check_choices, markdown_table, processor
from benchmarks.parameters import count_parameters

_LENGTH, _PREDICTIONS, _VOCAB_SIZE = 32, 5, 1000
_PORT = 2222
_MODELS = {
    "ALBERT": AlbertConfig(
        vocab_size=_VOCAB_SIZE,
        embedding_size=16,
        hidden_size=64,
        num_hidden_layers=6,
        num_attention_heads=2,
        intermediate_size=256,
    ),
}
_MODELS["BERT"] = dataclasses.replace(_MODELS["ALBERT"], embedding_size=64, sharing="none")
_PRESETS = {"ALBERT-large": "large_v2", "BERT-large": "bert_large"}
_BYTES_OF_GRADIENT = 4
_SWITCH = f"albert-switch-{os.getpid()}"
_SECONDS_TO_START, _SECONDS_TO_END = 240, 240


@dataclasses.dataclass(frozen=True)
class HostsOptions:
    """The options of this benchmark."""

    parts: tuple[str, ...] = option("Parts to run.", ("curves", "faults", "bytes"))
    faults: tuple[str, ...] = option("Faults to try.", ("kill", "link", "freeze", "slow"))
    hosts: tuple[str, ...] = option("Numbers of hosts of the curves.", ("2", "4"))

    def __post_init__(self):
        check_choices("parts", self.parts, ("curves", "faults", "bytes"))
        check_choices("faults", self.faults, ("kill", "link", "freeze", "slow"))


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Hosts:
    """Network namespaces that are connected by a switch.

    Args:
        count: number of hosts.
    """

    def __init__(self, count: int):
        self._count = count

    def __enter__(self) -> "Hosts":
        try:
            _ip("netns", "add", _SWITCH)
            _ip("-n", _SWITCH, "link", "add", "bridge", "type", "bridge")
            _ip("-n", _SWITCH, "link", "set", "bridge", "up")
            for number in range(self._count):
                self._connect(number)
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            self.__exit__()
            raise InputError(f"cannot make network namespaces: {error}; are you root?") from error
        return self

    def _connect(self, number: int) -> None:
        name, port = self.name(number), self.port(number)
        _ip("netns", "add", name)
        _ip("-n", _SWITCH, "link", "add", port, "type", "veth", "peer", "eth0", "netns", name)
        _ip("-n", _SWITCH, "link", "set", port, "master", "bridge", "up")
        _ip("-n", name, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")

    def __exit__(self, *exception) -> None:
        for name in (_SWITCH, *map(self.name, range(self._count))):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def name(self, number: int) -> str:
        """Returns the namespace of a host."""
        return f"albert-host-{number}-{os.getpid()}"

    def port(self, number: int) -> str:
        """Returns the switch's end of a host's link."""
        return f"port{number}"

    def address(self, number: int) -> str:
        """Returns the address of a host."""
        return f"10.213.0.{number + 1}"

    def bytes_on_link(self, number: int) -> int:
        """Returns the bytes that a host has sent and received so far."""
        command = ["ip", "-n", _SWITCH, "-s", "-j", "link", "show", "dev", self.port(number)]
        (link,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return link["stats64"]["rx"]["bytes"] + link["stats64"]["tx"]["bytes"]

    def start(self, flags: Mapping[str, Any]) -> "Workers":
        """Starts the training on all hosts."""
        addresses = [f"{self.address(number)}:{_PORT}" for number in range(self._count)]
        return Workers(
            [
                _start(
                    {**flags, "distribution_strategy": "multi_worker_mirrored"},
                    ["ip", "netns", "exec", self.name(number)],
                    {
                        "TF_CONFIG": json.dumps(
                            {
                                "cluster": {"worker": addresses},
                                "task": {"type": "worker", "index": number},
                            }
                        )
                    },
                )
                for number in range(self._count)
            ]
        )


class Worker(NamedTuple):
    """A process of a training, and what it has written to stderr."""

    process: subprocess.Popen
    log: IO[str]

    def last_line(self) -> str:
        """Returns its last line, and whether there was a traceback."""
        self.log.seek(0)
        lines = self.log.read().strip().splitlines()
        traced = " [and a traceback]" if any("Traceback" in line for line in lines) else ""
        return (lines[-1] if lines else "") + traced


def _start(
    flags: Mapping[str, Any],
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Worker:
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115
    process = subprocess.Popen(
        [*prefix, sys.executable, "run_pretraining.py", *arguments],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=log,
    )
    return Worker(process, log)


class End(NamedTuple):
    """How a worker ended.

    Attributes:
        seconds: seconds since the fault; None if it still ran at the end of the wait.
        status: its exit status.
        line: the last line that it printed.
    """

    seconds: float | None
    status: int | None
    line: str


class Workers:
    """The workers of a training, one per host."""

    def __init__(self, workers: Sequence[Worker]):
        self.workers = workers

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exception) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()

    def wait_for(self, is_ready: Callable[[], bool]) -> None:
        """Waits until something is there, while all workers run."""
        deadline = time.monotonic() + _SECONDS_TO_START
        while not is_ready():
            for number, worker in enumerate(self.workers):
                if worker.process.poll() is not None or time.monotonic() > deadline:
                    raise InputError(f"host {number} does not train: {worker.last_line()}")
            time.sleep(0.1)

    def wait(self, count: int) -> list[End]:
        """Waits for the end of some workers, for a limited time."""
        start = time.monotonic()
        ends: dict[int, float] = {}
        while len(ends) < count and time.monotonic() < start + _SECONDS_TO_END:
            for number, worker in enumerate(self.workers):
                if number not in ends and worker.process.poll() is not None:
                    ends[number] = time.monotonic() - start
            time.sleep(0.1)
        return [
            End(ends.get(number), worker.process.returncode, _last_words(worker))
            for number, worker in enumerate(self.workers)
        ]


def _last_words(worker: Worker) -> str:
    """Returns the last line of a worker that was not killed."""
    return "" if worker.process.returncode == -signal.SIGKILL else worker.last_line()


def _write_inputs(folder: str) -> dict[str, Any]:
    """Writes random records and a tiny model, and returns the flags of a training on them."""
    spec, rng = pretraining_record(_LENGTH, _PREDICTIONS), np.random.default_rng(1)
    most = {"input_ids": _VOCAB_SIZE, "masked_lm_positions": _LENGTH, "masked_lm_ids": _VOCAB_SIZE}
    columns = {
        feature.name: rng.integers(0, most.get(feature.name, 2), (1000, *feature.shape))
        for feature in spec.features
    }
    write_records(f"{folder}/train.tfrecord", spec.serialize_batch(columns))
    _MODELS["ALBERT"].to_json_file(f"{folder}/albert_config.json")
    return {
        "do_train": "true",
        "albert_config_file": f"{folder}/albert_config.json",
        "input_file": f"{folder}/train.tfrecord",
        "max_seq_length": _LENGTH,
        "max_predictions_per_seq": _PREDICTIONS,
        "train_batch_size": 16,
        "learning_rate": 0.01,
        "warmup_steps": 5,
    }


def _curve(output_dir: str) -> dict[int, float]:
    lines = pathlib.Path(output_dir, "metrics.jsonl").read_text().splitlines()
    return {line["step"]: line["loss"] for line in map(json.loads, lines)}


def _compare_curves(flags: Mapping[str, Any], folder: str, counts: Sequence[int]) -> str:
    flags = {**flags, "num_train_steps": 20, "log_steps": 1}
    alone = _start({**flags, "output_dir": f"{folder}/one"})
    if alone.process.wait():
        raise InputError(f"one device: {alone.last_line()}")
    one, rows = _curve(f"{folder}/one"), []
    for count in counts:
        with (
            Hosts(count) as hosts,
            hosts.start({**flags, "output_dir": f"{folder}/{count}"}) as workers,
        ):
            ends = workers.wait(count)
        for end in ends:
            if end.status:
                raise InputError(f"{count} hosts: {end.line}")
        other = _curve(f"{folder}/{count}")
        difference = max(abs(other[step] / loss - 1) for step, loss in one.items())
        rows.append([f"{count} hosts", f"{len(other)}", f"{difference:.1e}"])
    return markdown_table(["", "steps", "largest relative difference from one device"], rows)


def _newest(output_dir: str) -> int:
    steps = [
        int(path.stem.rpartition("-")[2]) for path in pathlib.Path(output_dir).glob("ckpt-*.index")
    ]
    return max(steps, default=0)


def _break(hosts: Hosts, workers: Workers, fault: str) -> None:
    port = ["dev", hosts.port(1)]
    if fault == "link":
        _ip("-n", _SWITCH, "link", "set", hosts.port(1), "down")
    elif fault == "freeze":
        workers.workers[1].process.send_signal(signal.SIGSTOP)
    elif fault == "slow":
        limits = ["tbf", "rate", "1mbit", "burst", "16kbit", "latency", "400ms"]
        command = ["ip", "netns", "exec", _SWITCH, "tc", "qdisc", "replace", *port, "root", *limits]
        subprocess.run(command, check=True, capture_output=True)
    elif fault == "kill":
        workers.workers[0].process.kill()


def _try_fault(flags: Mapping[str, Any], folder: str, fault: str) -> list[list[str]]:
    """Returns a row for each worker, and one for the resumed run."""
    output_dir = f"{folder}/{fault}"
    flags = {**flags, "output_dir": output_dir, "num_train_steps": 100_000, "log_steps": 10}
    flags["save_checkpoints_steps"] = 100
    with Hosts(2) as hosts, hosts.start(flags) as workers:
        workers.wait_for(lambda: _newest(output_dir) >= 200)
        _break(hosts, workers, fault)
        before = max(_curve(output_dir))
        ends = workers.wait(1 if fault == "freeze" else 2)
        if fault == "freeze":
            workers.workers[1].process.send_signal(signal.SIGCONT)
            ends[1] = workers.wait(2)[1]
        steps, saved = max(_curve(output_dir)), _newest(output_dir)
    rows = [
        [
            fault,
            f"host {number}",
            "runs on" if end.seconds is None else f"{end.seconds:.0f}",
            str(end.status),
            end.line
            if end.seconds is not None
            else f"{steps - before} steps in {_SECONDS_TO_END} s",
            str(steps - saved),
        ]
        for number, end in enumerate(ends)
    ]
    with Hosts(2) as hosts, hosts.start({**flags, "num_train_steps": saved + 100}) as workers:
        ends = workers.wait(2)
    status = " and ".join(str(end.status) for end in ends)
    rows.append([fault, "both, resumed", "", status, f"ended at step {_newest(output_dir)}", ""])
    return rows


def _bytes_per_step(flags: Mapping[str, Any], folder: str, model: str) -> float:
    """Returns the bytes that a host of two sends and receives in a step."""
    config_file, output_dir = f"{folder}/{model}.json", f"{folder}/bytes of {model}"
    _MODELS[model].to_json_file(config_file)
    changes = {"albert_config_file": config_file, "output_dir": output_dir, "log_steps": 1}
    changes |= {"num_train_steps": 100_000, "save_checkpoints_steps": 100_000}
    samples: list[tuple[int, int]] = []

    def is_sampled() -> bool:
        if os.path.exists(f"{output_dir}/metrics.jsonl"):
            samples.append((max(_curve(output_dir)), hosts.bytes_on_link(0)))
        return bool(samples) and samples[-1][0] >= samples[0][0] + 50

    with Hosts(2) as hosts, hosts.start({**flags, **changes}) as workers:
        workers.wait_for(is_sampled)
    steps, sent = np.subtract(samples[-1], samples[0])
    return sent / steps


def _compare_bytes(flags: Mapping[str, Any], folder: str) -> str:
    def cells(name: str, config: AlbertConfig, measured: str) -> list[str]:
        gradients = count_parameters(config).total * _BYTES_OF_GRADIENT
        # Each of n hosts sends and receives 2 (n - 1) / n times the gradients.
        return [name, f"{gradients / 1e6:,.2f}", f"{2 * gradients / 1e6:,.2f}", measured]

    rows = [
        cells(f"small {name}", config, f"{_bytes_per_step(flags, folder, name) / 1e6:,.2f}")
        for name, config in _MODELS.items()
    ]
    rows += [cells(name, AlbertConfig.from_preset(preset), "") for name, preset in _PRESETS.items()]
    return markdown_table(["MB per step, 2 hosts", "gradients", "computed", "measured"], rows)


def _main(options: HostsOptions) -> None:
    print(f"{processor()}\n")
    with tempfile.TemporaryDirectory() as folder:
        flags = _write_inputs(folder)
        if "curves" in options.parts:
            counts = [int(count) for count in options.hosts]
            print(_compare_curves(flags, folder, counts), end="\n\n", flush=True)
        if "bytes" in options.parts:
            print(_compare_bytes(flags, folder), end="\n\n", flush=True)
        if "faults" in options.parts:
            header = ["fault", "worker", "seconds", "status", "last line", "updates lost"]
            for fault in options.faults:
                rows = _try_fault(flags, folder, fault)
                print(markdown_table(header, rows, text_columns=5), end="\n\n", flush=True)


if __name__ == "__main__":
    command_line.run(HostsOptions, _main)
