"""Distribution strategies by name, and deterministic execution."""

import functools
import itertools
import json
import os
from collections.abc import Callable
from typing import Literal

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError

StrategyName = Literal["one_device", "mirrored", "multi_worker_mirrored", "tpu"]

_TF_CONFIG = "TF_CONFIG"


def make_strategy(name: StrategyName, tpu: str | None = None) -> tf.distribute.Strategy:
    """Returns a distribution strategy.

    The strategies of several workers and of TPUs have to be created before TensorFlow runs anything.

    Args:
        name: `one_device` uses the first device; `mirrored` has one replica per GPU of the machine, or
            per CPU device if there is no GPU; `multi_worker_mirrored` one per device of the workers in
            the environment variable TF_CONFIG; `tpu` one per core.
        tpu: name or address of the TPU, or `local` on a TPU VM.

    Raises:
        InputError: TF_CONFIG does not describe workers, or the TPU is not available.
    """
    return _make_once(name, tpu)


# Once per process: every new strategy numbers its collectives from the same start, so the first
# all-reduce of a second one would fail with "Shape mismatch in the collective instance".
@functools.cache
def _make_once(name: StrategyName, tpu: str | None) -> tf.distribute.Strategy:
    return _MAKERS[name](tpu)


def _make_one_device(tpu: None) -> tf.distribute.Strategy:
    return tf.distribute.OneDeviceStrategy(_local_devices()[0])


def _make_mirrored(tpu: None) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(_local_devices())


def _local_devices() -> list[str]:
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return [device.name for device in devices]


def _make_multi_worker_mirrored(tpu: None) -> tf.distribute.Strategy:
    _check_tf_config(os.environ.get(_TF_CONFIG))
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (RuntimeError, tf.errors.OpError) as error:
        raise InputError(
            f"this worker cannot start: {files.reason(error)}; another process may use its port; "
            f"{_TF_CONFIG} is {os.environ[_TF_CONFIG]}"
        ) from error


def _check_tf_config(text: str | None) -> None:
    task = '"task": {"type": "worker", "index": 0}'
    example = f'expected {{"cluster": {{"worker": ["host:port", ...]}}, {task}}}'
    if text is None:
        raise InputError(f"the environment variable {_TF_CONFIG} is not set; {example}")
    try:
        config = json.loads(text)
    except ValueError as error:
        raise InputError(f"{_TF_CONFIG} is not JSON ({error}); {example}") from error
    try:
        cluster = config["cluster"]
        tasks = cluster[config["task"]["type"]]
        named = isinstance(tasks, list) and 0 <= config["task"]["index"] < len(tasks)
    except (KeyError, TypeError):
        named = False
    if not named:
        raise InputError(f"{_TF_CONFIG} does not name this task: {text}; {example}")
    lists = (addresses for addresses in cluster.values() if isinstance(addresses, list))
    for address in itertools.chain(*lists):
        port = str(address).rpartition(":")[2]
        if not (port.isdecimal() and 0 < int(port) < 1 << 16 and str(address) != port):
            raise InputError(
                f"{_TF_CONFIG} has the address '{address}'; expected 'host:port', with a port from 1 to "
                "65535"
            )


def _make_tpu(tpu: str | None) -> tf.distribute.Strategy:
    if tpu is None:
        raise InputError("tpu: expected the name of a TPU; received none")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, OSError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"tpu={tpu}: there is no such TPU: {reason}") from error
    return tf.distribute.TPUStrategy(resolver)


_MAKERS: dict[StrategyName, Callable[[str | None], tf.distribute.Strategy]] = {
    "one_device": _make_one_device,
    "mirrored": _make_mirrored,
    "multi_worker_mirrored": _make_multi_worker_mirrored,
    "tpu": _make_tpu,
}


def make_deterministic() -> None:
    """Makes every step reproducible to the bit on CPU, and on GPU as far as TensorFlow supports it.

    On CPU deterministic operators are not enough: with two threads the same ten steps gave different
    weights in each run, with one thread the same ones. So this uses a single core.
    """
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
