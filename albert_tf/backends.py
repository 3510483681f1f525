"""The Keras backends that albert_tf supports."""

import keras

from albert_tf.errors import InputError

SUPPORTED = ("tensorflow", "jax", "torch")

BACKEND = keras.backend.backend()
if BACKEND not in SUPPORTED:
    raise InputError(f"KERAS_BACKEND is {BACKEND}; expected one of {', '.join(SUPPORTED)}")


def require_tensorflow(part: str) -> None:
    """Raises an `InputError` if Keras has another backend than TensorFlow, which `part` needs."""
    if BACKEND != "tensorflow":
        raise InputError(f"{part} needs the TensorFlow backend; KERAS_BACKEND is {BACKEND}")
