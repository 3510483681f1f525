"""What every layer of ALBERT decides the same way: starting values, layer norm, activation, seeds."""

import functools
import random
from collections.abc import Callable

import keras
from keras import ops

from albert_tf.layers.fast_gradients import normalize, tanh_gelu

# Of the original's layer norms, all of them.
LAYER_NORM_EPSILON = 1e-12


class SeedStream:
    """Distinct seeds, one after the other, all from one.

    A Keras initializer with a fixed seed gives the same values at each call, so each kernel and each
    dropout needs a seed of its own for a model to be repeatable.

    Args:
        seed: where the stream starts; None draws it from the operating system.
    """

    def __init__(self, seed: int | None):
        self._random = random.Random(seed)

    def next(self) -> int:
        """Returns the next seed, in [0, 2**31)."""
        return self._random.getrandbits(31)


def truncated_normal(stddev: float, seeds: SeedStream) -> keras.initializers.Initializer:
    """Returns the initializer of all kernels and tables (BERT's `create_initializer`)."""
    return keras.initializers.TruncatedNormal(stddev=stddev, seed=seeds.next())


def dense(
    units: int,
    stddev: float,
    seeds: SeedStream,
    name: str,
    layer: keras.Layer,
    use_bias: bool = True,
) -> keras.layers.Dense:
    """Returns a dense layer with ALBERT's starting values and the precision of `layer`."""
    return keras.layers.Dense(
        units,
        use_bias=use_bias,
        kernel_initializer=truncated_normal(stddev, seeds),
        name=name,
        dtype=layer.dtype_policy,
    )


def as_rows(x: keras.KerasTensor) -> keras.KerasTensor:
    """Reshapes (..., width) to (T, width).

    On a matrix, unlike on (B, S, width), TensorFlow makes one operator of a product and its bias.
    """
    return ops.reshape(x, (-1, x.shape[-1]))


class LayerNorm(keras.layers.Layer):
    """Layer norm of the last axis; its variables stay float32 in mixed precision."""

    def build(self, input_shape):
        """Makes `gamma` and `beta`, as wide as the last axis of `input_shape`."""
        width = (input_shape[-1],)
        self.gamma = self.add_weight(shape=width, initializer="ones", name="gamma", autocast=False)
        self.beta = self.add_weight(shape=width, initializer="zeros", name="beta", autocast=False)

    def call(self, inputs):
        """Normalises float (..., width)."""
        normalized = normalize(inputs, LAYER_NORM_EPSILON)
        return ops.cast(normalized * self.gamma + self.beta, self.compute_dtype)


def layer_norm(layer: keras.Layer) -> LayerNorm:
    """Returns a layer norm of the last axis with the precision of `layer`."""
    return LayerNorm(name="layer_norm", dtype=layer.dtype_policy)


def dropout(rate: float, seeds: SeedStream, name: str, layer: keras.Layer) -> keras.layers.Dropout:
    """Returns a dropout with a seed of its own and the precision of `layer`."""
    return keras.layers.Dropout(rate, seed=seeds.next(), name=name, dtype=layer.dtype_policy)


def activation(name: str, training: bool | None = None) -> Callable:
    """Returns the activation of a config's `hidden_act`.

    `gelu` is the tanh form (the original's), `gelu_erf` the exact one (https://arxiv.org/abs/1606.08415).

    Args:
        name: of the activation.
        training: whether its gradient will be taken; where it will not, TensorFlow's own operators
            fuse with the product before them.
    """
    if training and name == "gelu":
        return tanh_gelu
    if name in ("gelu", "gelu_erf"):
        return functools.partial(keras.ops.gelu, approximate=name == "gelu")
    return keras.activations.get(name)
