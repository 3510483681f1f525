"""The Keras backends that albert_tf supports."""

import functools
import os

import keras

from albert_tf.errors import InputError

SUPPORTED = ("tensorflow", "jax", "torch")

BACKEND = keras.backend.backend()
if BACKEND not in SUPPORTED:
    raise InputError(f"KERAS_BACKEND is {BACKEND}; expected one of {', '.join(SUPPORTED)}")


def require_tensorflow(part: str) -> None:
    """Raises an `InputError` unless `part`, which needs TensorFlow, can run here.

    Keras may have another backend. And in a fork of a process that has started TensorFlow its threads are
    missing, so that it would wait for them forever.
    """
    if BACKEND != "tensorflow":
        raise InputError(f"{part} needs the TensorFlow backend; KERAS_BACKEND is {BACKEND}")
    if _first_process() != os.getpid():
        raise InputError(
            f"{part}: this process is a fork of one that uses TensorFlow, which cannot run in a fork; "
            "load the model in each worker and not before, or start workers with the method 'spawn'"
        )


@functools.cache
def _first_process() -> int:
    return os.getpid()
