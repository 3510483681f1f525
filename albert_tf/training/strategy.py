"""Where a step runs: the `tf.distribute` strategy of a name, and whether it repeats to the bit."""

import functools
from typing import Literal

import tensorflow as tf

StrategyName = Literal["one_device", "mirrored"]


# Once a process: TensorFlow numbers the collectives of every new strategy from the same start, so the
# first all-reduce of a second one fails with "Shape mismatch in the collective instance".
@functools.cache
def make_strategy(name: StrategyName) -> tf.distribute.Strategy:
    """Returns the strategy on the machine's GPUs, or on its CPU devices where there is no GPU.

    Args:
        name: `one_device` uses the first device, `mirrored` a replica on each.
    """
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    names = [device.name for device in devices]
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(names[0])
    return tf.distribute.MirroredStrategy(names)


def make_deterministic() -> None:
    """Makes every step repeat to the bit on CPU, and on GPU as far as TensorFlow can.

    Deterministic operators are not enough on CPU: with two threads the same ten steps ended with other
    weights in each run, with one thread they did not. So this gives up the other cores.

    Raises:
        RuntimeError: TensorFlow has started already.
    """
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
