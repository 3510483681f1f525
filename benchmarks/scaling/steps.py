"""The time of a pre-training step on many devices, by the speeds of its devices and links."""

import dataclasses
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.tasks.recipes import PAPER_PRETRAINING
from benchmarks.scaling.costs import BYTES_OF_GRADIENT, Costs

# Of each parameter: value, gradient and LAMB's two moments.
_BYTES_OF_STATE = 4 * 4
# LAMB reads these four, and writes all but the gradient.
_BYTES_OF_UPDATE = 7 * 4
# A further micro-batch reads gradient and sum, and writes the sum.
_BYTES_OF_ADDING = 3 * 4
# All-reduces of a step: the weights of the loss, and the gradients together with the metrics.
_ALL_REDUCES = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """What devices and links do, and the batch."""

    batch_size: int = option(
        "Number of sequences per update.", PAPER_PRETRAINING.train_batch_size, least=1
    )
    teraflops: float = option(
        "Peak 10^12 operations per second of a device. Default: bf16 on an NVIDIA A100.",
        312.0,
        least=0.001,
    )
    utilisation: float = option("Share of the peak that a step reaches.", 0.4, least=0.001, most=1)
    memory: float = option(
        "Memory of a device for tensors in GB. Default: 90 % of an A100's 80 GB.", 72.0, least=0.001
    )
    memory_bandwidth: float = option(
        "Bandwidth of a device's memory in GB/s. Default: an A100's.", 2039.0, least=0.001
    )
    link_bandwidth: float = option(
        "Bandwidth of the slowest link of the ring in GB/s, in each direction. Default: 100 Gbit/s.",
        12.5,
        least=0.001,
    )
    latency: float = option("Latency of a message on a link in microseconds.", 20.0, least=0)


def ring_bytes(size: int, replicas: int) -> float:
    """Returns the bytes that each replica sends, and receives, in a ring all-reduce.

    It is the least that any all-reduce can do (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce
    algorithms for clusters of workstations").

    Args:
        size: bytes of the numbers that are added up.
        replicas: number of replicas.
    """
    return 2 * (replicas - 1) / replicas * size


class Step(NamedTuple):
    """A step on some devices: seconds of its parts, one after the other."""

    compute: float
    update: float
    bandwidth: float
    latency: float
    micro_batches: int

    @property
    def seconds(self) -> float:
        """Seconds of the step."""
        return sum(self[:-1])

    @property
    def limit(self) -> str:
        """Name of the longest part."""
        return max(self._fields[:-1], key=lambda name: getattr(self, name))


def count_micro_batches(costs: Costs, sequences: int, memory: float) -> int:
    """Returns the least number of equal micro-batches that fit into the memory of a device.

    Args:
        costs: costs of the model.
        sequences: number of sequences of a replica.
        memory: bytes.

    Raises:
        InputError: not even one sequence fits.
    """
    for count in range(1, sequences + 1):
        if sequences % count == 0:
            state = costs.parameters * (_BYTES_OF_STATE + (count > 1) * BYTES_OF_GRADIENT)
            needed = state + sequences // count * costs.activation_bytes
            if needed <= memory:
                return count
    raise InputError(
        f"--memory={memory / 1e9:g}: a micro-batch of one sequence needs {needed / 1e9:.1f} GB"
    )


def compute_step(costs: Costs, devices: int, options: ClusterOptions) -> Step:
    """Returns the step of a model on some devices.

    Raises:
        InputError: not even one sequence fits into the memory of a device.
    """
    sequences = options.batch_size // devices
    count = count_micro_batches(costs, sequences, options.memory * 1e9)
    updated = costs.parameters * (_BYTES_OF_UPDATE + (count - 1) * _BYTES_OF_ADDING)
    sent = ring_bytes(costs.gradient_bytes, devices)
    messages = _ALL_REDUCES * 2 * (devices - 1)
    return Step(
        compute=sequences * costs.flops / (options.teraflops * 1e12 * options.utilisation),
        update=updated / (options.memory_bandwidth * 1e9),
        bandwidth=sent / (options.link_bandwidth * 1e9),
        latency=messages * options.latency / 1e6,
        micro_batches=count,
    )
