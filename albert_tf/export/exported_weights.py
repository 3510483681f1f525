"""The weights of an exported model, in the type in which its layers read them.

In mixed precision a layer casts its float32 kernel to 16 bits whenever it reads it, and ALBERT reads the
kernels of its one block at each application of the block; for a short text that takes longer than the
matrix products. An exported model stores the 16-bit values, half as many bytes, and reads them once.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf


def float32_model(model: keras.Model) -> keras.Model:
    """Returns the model, or a copy of it that computes in float32, as other runtimes' operators do."""
    if model.compute_dtype == getattr(model, "encoder", model).compute_dtype == "float32":
        return model
    config = model.get_config()
    config["encoder"]["config"] |= {"dtype": "float32"}
    copy = type(model).from_config({**config, "dtype": "float32"})
    copy.set_weights(model.get_weights())
    return copy


def make_exported_weights(model: keras.Model) -> list[tf.Variable]:
    """Returns a model's weights in the dtype in which its layers, all of one policy, read them.

    A weight that already has this dtype is the model's variable, otherwise a copy.
    """
    # Inside a call, a variable's value has the dtype that the call computes in.
    read = keras.layers.Lambda(
        lambda _: [tf.convert_to_tensor(variable.value) for variable in model.weights],
        dtype=model.dtype_policy,
    )
    weights = []
    for variable, value in zip(model.weights, read(tf.zeros(())), strict=True):
        # The embedding casts its tables by itself.
        is_matrix = len(variable.shape) == 2
        dtype = tf.as_dtype(model.compute_dtype) if is_matrix else value.dtype
        is_same = dtype == variable.value.dtype
        weights.append(variable.value if is_same else tf.Variable(tf.cast(value, dtype)))
    return weights


def reading(model: keras.Model, weights: Sequence[tf.Variable]) -> keras.StatelessScope:
    """Returns a scope in which a model reads the weights from `make_exported_weights`, each once."""
    scope = keras.StatelessScope()
    for variable, weight in zip(model.weights, weights, strict=True):
        # The constructor would cast them to the dtype of the model's variables.
        scope.add_update((variable, tf.convert_to_tensor(weight)))
    return scope
