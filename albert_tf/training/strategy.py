"""Distribution strategies by name, errors of devices, and deterministic execution."""

import contextlib
import functools
import itertools
import json
import os
from collections.abc import Iterator

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError, StoppedError
from albert_tf.options.training import StrategyName

_TF_CONFIG = "TF_CONFIG"
# Kernels of Triton, which XLA would generate and time for each product. Without them it compiled a step
# of ALBERT-base on an H200 in 41 s; with them it had not finished after 118 s. XLA reads its flags once,
# when TensorFlow makes its devices.
_XLA_FLAG = "--xla_gpu_enable_triton_gemm"


def make_strategy(name: StrategyName, tpu: str | None = None) -> tf.distribute.Strategy:
    """Returns a distribution strategy.

    The strategies of several workers and of TPUs have to be created before TensorFlow runs anything.
    `one_device` uses the first device; `mirrored` has one replica per GPU of the machine, or per CPU
    device if there is no GPU; `multi_worker_mirrored` one per device of the workers in the environment
    variable TF_CONFIG; `tpu` one per core of the TPU with a name or address, or `local` on a TPU VM.
    On GPUs it adds to the environment variable XLA_FLAGS what a short compilation needs.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if has_gpu() and _XLA_FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_XLA_FLAG}=false"
    return _make_once(name, tpu)


# Once per process: every new strategy numbers its collectives from the same start, so the first
# all-reduce of a second one would fail with "Shape mismatch in the collective instance".
@functools.cache
def _make_once(name: StrategyName, tpu: str | None) -> tf.distribute.Strategy:
    if name == "multi_worker_mirrored":
        return _make_multi_worker_mirrored()
    if name == "tpu":
        return _make_tpu(tpu)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    names = [device.name for device in devices]
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(names[0])
    return tf.distribute.MirroredStrategy(names)


def has_gpu() -> bool:
    """Returns whether TensorFlow sees a GPU."""
    return bool(tf.config.get_visible_devices("GPU"))


def _make_multi_worker_mirrored() -> tf.distribute.Strategy:
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


@contextlib.contextmanager
def explain_lost_worker(is_alone: bool) -> Iterator[None]:
    """Turns TensorFlow's error about another worker into a `StoppedError`, if there is another."""
    try:
        yield
    except tf.errors.OpError as error:
        # A worker whose link is cut gets an error of another type, with this text.
        is_lost = isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError)
        if is_alone or not (is_lost or "Collective ops is aborted" in error.message):
            raise
        raise StoppedError(
            f"another worker was lost ({files.reason(error)}); restart all workers with the same "
            "commands to resume from the newest checkpoint"
        ) from error


@contextlib.contextmanager
def explain_full_memory() -> Iterator[None]:
    """Turns TensorFlow's error about a device without free memory into a `StoppedError`."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise StoppedError(
            f"out of memory ({files.reason(error)}); a smaller --train_batch_size, --eval_batch_size or "
            "--max_seq_length needs less, and so do more --accumulate_steps"
        ) from error


def make_deterministic() -> None:
    """Makes every step reproducible to the bit on CPU, and on GPU as far as TensorFlow supports it.

    On CPU deterministic operators are not enough: with two threads the same ten steps gave different
    weights in each run, with one thread the same ones. So this uses a single core.
    """
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError as error:
        raise InputError(
            "deterministic: expected before TensorFlow runs anything in the process; start a new one"
        ) from error
    tf.config.experimental.enable_op_determinism()
