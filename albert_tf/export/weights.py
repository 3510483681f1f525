"""The weights of an exported model, in the type in which its layers read them.

In mixed precision a layer casts its float32 kernel to 16 bits whenever it reads it, and ALBERT reads the
kernels of its one block at each application of the block; for a short text that takes longer than the
matrix products. An exported model stores the 16-bit values, half as many bytes, and reads them once.

Matrices may be stored in int8 instead, a quarter of float32. Each call converts them back once, so the
folder is smaller, but not the memory of a call.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

_LARGEST_INT8 = 127


class Int8Matrix(tf.Module):
    """A matrix in int8, with one scale per output of a kernel or per row of an embedding table.

    The scale maps the largest magnitude to 127, as in LiteRT's quantization of weights
    (https://ai.google.dev/edge/litert/models/quantization_spec). `read` returns the matrix in `dtype`.
    """

    def __init__(self, variable: keras.Variable, dtype: tf.DType = tf.float32):
        super().__init__()
        value = tf.convert_to_tensor(variable.value)
        axis = 1 if variable.path.endswith("embeddings") else 0
        largest = tf.reduce_max(tf.abs(value), axis=axis, keepdims=True)
        scale = largest / _LARGEST_INT8
        rounded = tf.round(tf.math.divide_no_nan(value, scale))
        self._dtype = dtype
        self._rounded = tf.Variable(tf.cast(rounded, tf.int8), trainable=False)
        self._scale = tf.Variable(scale, trainable=False)

    def read(self) -> tf.Tensor:
        """Returns the matrix."""
        return tf.cast(tf.cast(self._rounded, tf.float32) * self._scale, self._dtype)


ExportedWeight = tf.Variable | Int8Matrix


def round_to_int8(model: keras.Model) -> None:
    """Rounds a model's matrices to the values that int8 can store."""
    for variable in model.weights:
        if _is_matrix(variable):
            variable.assign(Int8Matrix(variable).read())


def in_float32(model: keras.Model) -> keras.Model:
    """Returns the model, or a copy of it that computes in float32, as other runtimes' operators do."""
    if model.compute_dtype == getattr(model, "encoder", model).compute_dtype == "float32":
        return model
    config = model.get_config()
    config["encoder"]["config"] |= {"dtype": "float32"}
    copy = type(model).from_config({**config, "dtype": "float32"})
    copy.set_weights(model.get_weights())
    return copy


def make_exported_weights(model: keras.Model, int8: bool = False) -> list[ExportedWeight]:
    """Returns a model's weights in the dtype in which its layers, all of one policy, read them.

    A weight that already has this dtype is the model's variable, otherwise a copy. With `int8`, matrices
    are stored in int8.
    """
    # Inside a call, a variable's value has the dtype that the call computes in.
    read = keras.layers.Lambda(
        lambda _: [tf.convert_to_tensor(variable.value) for variable in model.weights],
        dtype=model.dtype_policy,
    )
    weights = []
    for variable, value in zip(model.weights, read(tf.zeros(())), strict=True):
        # The embedding casts its tables by itself.
        dtype = tf.as_dtype(model.compute_dtype) if _is_matrix(variable) else value.dtype
        if int8 and _is_matrix(variable):
            weights.append(Int8Matrix(variable, dtype))
        elif dtype == variable.value.dtype:
            weights.append(variable.value)
        else:
            weights.append(tf.Variable(tf.cast(value, dtype)))
    return weights


def reading(model: keras.Model, weights: Sequence[ExportedWeight]) -> keras.StatelessScope:
    """Returns a scope in which a model reads the weights from `make_exported_weights`, each once."""
    scope = keras.StatelessScope()
    for variable, weight in zip(model.weights, weights, strict=True):
        value = weight.read() if isinstance(weight, Int8Matrix) else tf.convert_to_tensor(weight)
        # The constructor would cast them to the dtype of the model's variables.
        scope.add_update((variable, value))
    return scope


def _is_matrix(variable: keras.Variable) -> bool:
    return len(variable.shape) == 2
