"""The weights of an exported model, as its layers read them.

In mixed precision a layer casts its float32 kernel to 16 bits wherever it reads it, and ALBERT reads the
kernels of its one block at each application of the block: of a short text, that takes longer than the
products do. An exported model stores what the layers read, which is half as much, and reads it once.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf


def make_exported_weights(model: keras.Model) -> list[tf.Variable]:
    """Returns a variable for each of a model's weights, in the dtype in which its layers read it.

    Where that is the weight's own dtype it is the model's variable, else a copy.

    Args:
        model: whose layers all have its dtype policy.
    """
    # Inside of a call, a variable's value is what the call computes with.
    read = keras.layers.Lambda(
        lambda _: [variable.value for variable in model.weights], dtype=model.dtype_policy
    )
    return [
        variable.value if value.dtype == variable.value.dtype else tf.Variable(value)
        for variable, value in zip(model.weights, read(tf.zeros(())), strict=True)
    ]


def reading(model: keras.Model, weights: Sequence[tf.Variable]) -> keras.StatelessScope:
    """Returns a scope in which a model reads other weights, each once, instead of its own.

    Args:
        model: the model.
        weights: of `make_exported_weights`.
    """
    scope = keras.StatelessScope()
    for variable, weight in zip(model.weights, weights, strict=True):
        # Given to the constructor, they would be cast to the dtype of the model's variables.
        scope.add_update((variable, tf.convert_to_tensor(weight)))
    return scope
