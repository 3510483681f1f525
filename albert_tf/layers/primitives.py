"""Building blocks of the layers: initialisation, seeds, layer norm and activations.

TensorFlow runs operators one by one, and each goes through memory: what its automatic gradients of gelu
and layer norm read, write and keep for the backward pass takes longer than their arithmetic. So both have
handwritten gradients here, in few operators. They are first derivatives only: what they keep has no
gradient of its own.
"""

import functools
import math
import random
from collections.abc import Callable

import keras
from keras import ops

from albert_tf.config import LAYER_NORM_EPSILON, AlbertConfig


class BaseLayer(keras.layers.Layer):
    """A part of a model of a config, which makes layers of its own.

    These have its precision, and each a seed of its own. `seed` None draws them from the operating
    system. They are made with the width of their input, so that they can be built before the first call.
    Models save their config and not their layers.
    """

    def __init__(self, config: AlbertConfig, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        # A Keras initializer with a fixed seed returns the same values at each call, so each kernel and
        # each dropout needs its own.
        self._seeds = random.Random(seed)
        self._input_widths: dict[str, int] = {}

    def build(self, input_shape):
        """Creates the variables of the layers within; `input_shape` is for summaries only."""
        for layer in self._flatten_layers(include_self=False, recursive=False):
            if layer.name in self._input_widths:
                layer.build((None, self._input_widths[layer.name]))

    # Traces `call`: from shapes alone Keras would give the outputs the dtype of the policy.
    compute_output_spec = keras.Operation.compute_output_spec

    def compute_output_shape(self, input_shape, *more_shapes):
        """Returns the shapes of the outputs for summaries, given those of the inputs."""
        shapes = (input_shape, *more_shapes)
        inputs = [keras.KerasTensor(shape, self.compute_dtype) for shape in shapes]
        return keras.tree.map_structure(lambda x: x.shape, self.compute_output_spec(*inputs))

    def _initializer(self) -> keras.initializers.Initializer:
        """Returns the initializer of all kernels and tables (BERT's `create_initializer`)."""
        return keras.initializers.TruncatedNormal(
            stddev=self.config.initializer_range, seed=self._seeds.getrandbits(31)
        )

    def _dense(
        self, name: str, input_width: int, units: int, use_bias: bool = True
    ) -> keras.layers.Dense:
        self._input_widths[name] = input_width
        return keras.layers.Dense(
            units,
            use_bias=use_bias,
            kernel_initializer=self._initializer(),
            name=name,
            dtype=self.dtype_policy,
        )

    def _dropout(self, name: str, rate: float) -> keras.layers.Dropout:
        return keras.layers.Dropout(
            rate, seed=self._seeds.getrandbits(31), name=name, dtype=self.dtype_policy
        )

    def _layer_norm(self, input_width: int) -> "LayerNorm":
        self._input_widths["layer_norm"] = input_width
        return LayerNorm(name="layer_norm", dtype=self.dtype_policy)


def as_rows(x: keras.KerasTensor) -> keras.KerasTensor:
    """Reshapes (..., width) to (T, width).

    On a matrix, unlike on (B, S, width), TensorFlow fuses a product with its bias.
    """
    return ops.reshape(x, (-1, x.shape[-1]))


def take_positions(x: keras.KerasTensor, positions: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the rows (B, M, width) of (B, S, width) at positions int (B, M), in [0, S).

    The gradient is a product with one-hot vectors. That of a gather is a scatter, which GPUs make of
    atomic additions: slow where many go to the same row, and in 16 bits.
    """
    length, width = ops.shape(x)[1:]

    @ops.custom_gradient
    def apply(x):
        rows = ops.take(as_rows(x), rows_of(positions, length), axis=0)  # (B * M, width)

        def gradient(*arguments, upstream=None):
            upstream = _upstream(arguments, upstream)
            is_taken = ops.one_hot(positions, length, dtype=x.dtype)  # (B, M, S)
            return ops.matmul(ops.transpose(is_taken, (0, 2, 1)), upstream)

        return ops.reshape(rows, (-1, ops.shape(positions)[1], width)), gradient

    return apply(x)


def take_by_product(table: keras.KerasTensor, ids: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the rows of a table (n, width) at ids int (...), in [0, n), by one-hot vectors."""
    return ops.matmul(ops.one_hot(ids, table.shape[0], dtype=table.dtype), table)


def rows_of(positions: keras.KerasTensor, length: int) -> keras.KerasTensor:
    """Returns the rows of positions (B, M) among all B * S, int32 (B * M,), for the length S."""
    # As they come, integers of 8 or 16 bits might not reach B * S.
    positions = ops.cast(positions, "int32")
    starts = ops.arange(ops.shape(positions)[0], dtype="int32")[:, None] * length
    return ops.reshape(positions + starts, (-1,))


class LayerNorm(keras.layers.Layer):
    """Layer norm of the last axis; its variables stay float32 in mixed precision."""

    def build(self, input_shape):
        """Creates `gamma` and `beta`, as wide as the last axis of `input_shape`."""
        width = (input_shape[-1],)
        self.gamma = self.add_weight(shape=width, initializer="ones", name="gamma", autocast=False)
        self.beta = self.add_weight(shape=width, initializer="zeros", name="beta", autocast=False)

    def call(self, inputs):
        """Normalises float (..., width)."""
        normalized = normalize(inputs, LAYER_NORM_EPSILON)
        return ops.cast(normalized * self.gamma + self.beta, self.compute_dtype)


def activation(name: str, training: bool | None = None) -> Callable:
    """Returns the activation of a config's `hidden_act`.

    `gelu` is the tanh form (the original's), `gelu_erf` the exact one (https://arxiv.org/abs/1606.08415).
    Without `training` no gradient is needed: TensorFlow's own operators fuse with the product before
    them.
    """
    if training and name == "gelu":
        return tanh_gelu
    if name in ("gelu", "gelu_erf"):
        return functools.partial(keras.ops.gelu, approximate=name == "gelu")
    return keras.activations.get(name)


# gelu(x) = x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)), which is the tanh form of
# https://arxiv.org/abs/1606.08415, since tanh(z) = 2 * sigmoid(2 * z) - 1.
_LINEAR = 2.0 * math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715 * _LINEAR


@ops.custom_gradient
def tanh_gelu(x):
    """Computes the tanh form of gelu in float32, and keeps its derivative for the backward pass.

    TensorFlow's sigmoid takes four times as long in bfloat16 as in float32. The result has the dtype of
    `x`.
    """
    exact = ops.cast(x, "float32")
    square = ops.square(exact)
    gate = ops.sigmoid(exact * (_LINEAR + _CUBIC * square))
    output = exact * gate
    derivative = gate + (output - output * gate) * (_LINEAR + 3.0 * _CUBIC * square)
    derivative = ops.cast(derivative, x.dtype)

    def gradient(*arguments, upstream=None):
        return _upstream(arguments, upstream) * derivative

    return ops.cast(output, x.dtype), gradient


def normalize(x: keras.KerasTensor, epsilon: float) -> keras.KerasTensor:
    """Scales the last axis to mean 0 and variance 1, float32: a layer norm without gamma and beta."""

    @ops.custom_gradient
    def apply(x):
        centered = ops.cast(x, "float32")
        centered = centered - _mean(centered)
        scale = ops.rsqrt(_mean(ops.square(centered)) + epsilon)
        normalized = centered * scale

        def gradient(*arguments, upstream=None):
            upstream = _upstream(arguments, upstream)
            projection = normalized * _mean(upstream * normalized)
            return ops.cast(scale * (upstream - _mean(upstream) - projection), x.dtype)

        return normalized, gradient

    return apply(x)


def _upstream(arguments, upstream):
    """Returns the upstream gradient, which PyTorch's backend passes by name and the others do not."""
    return arguments[0] if upstream is None else upstream


def _mean(x):
    return ops.mean(x, axis=-1, keepdims=True)
