"""Functions of the block whose gradients are written down here, in few operators.

TensorFlow runs operators one by one, and each goes through memory: what its automatic gradients of
gelu and layer norm read, write and keep for the backward pass takes longer than their arithmetic.
First derivatives only: what these gradients keep has no gradient of its own.
"""

import math

import keras
from keras import ops

# gelu(x) = x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)), which is the tanh form of
# https://arxiv.org/abs/1606.08415, since tanh(z) = 2 * sigmoid(2 * z) - 1.
_LINEAR = 2.0 * math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715 * _LINEAR


@ops.custom_gradient
def tanh_gelu(x):
    """The tanh form of gelu, computed in float32; keeps one tensor, the derivative.

    TensorFlow's sigmoid takes four times as long in bfloat16 as in float32.

    Args:
        x: float, any shape.

    Returns:
        float, shape and dtype of `x`.
    """
    exact = ops.cast(x, "float32")
    square = ops.square(exact)
    gate = ops.sigmoid(exact * (_LINEAR + _CUBIC * square))
    output = exact * gate
    derivative = gate + (output - output * gate) * (_LINEAR + 3.0 * _CUBIC * square)
    derivative = ops.cast(derivative, x.dtype)

    def gradient(upstream):
        return upstream * derivative

    return ops.cast(output, x.dtype), gradient


def normalize(x: keras.KerasTensor, epsilon: float) -> keras.KerasTensor:
    """Shifts and scales the last axis to mean 0 and variance 1: layer norm before gamma and beta.

    Args:
        x: float (..., width).
        epsilon: added to the variance.

    Returns:
        float32, shape of `x`.
    """

    @ops.custom_gradient
    def apply(x):
        centered = ops.cast(x, "float32")
        centered = centered - _mean(centered)
        scale = ops.rsqrt(_mean(ops.square(centered)) + epsilon)
        normalized = centered * scale

        def gradient(upstream):
            projection = normalized * _mean(upstream * normalized)
            return ops.cast(scale * (upstream - _mean(upstream) - projection), x.dtype)

        return normalized, gradient

    return apply(x)


def _mean(x):
    return ops.mean(x, axis=-1, keepdims=True)
