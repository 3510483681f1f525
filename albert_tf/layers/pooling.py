"""Poolings: one vector of a text from the hidden states of its tokens.

Names and formulas are those of https://github.com/UKPLab/sentence-transformers (its module Pooling). All
but `cls` and `max` are sums of the states with weights, which a function of the mask gives.
"""

from collections.abc import Callable, Mapping

import keras
from keras import ops

from albert_tf.options.kinds import Pooling, PoolingName, pooling_names

_LOWEST = -1e30  # below every hidden state


def pool(
    pooling: Pooling, states: keras.KerasTensor, input_mask: keras.KerasTensor
) -> keras.KerasTensor:
    """Maps hidden states (B, S, H) and a mask of tokens (B, S) to vectors, float32 (B, width).

    The vectors of several poolings are joined; `pooled_width` is the width. A
    sequence of padding alone has the vector 0, but with `cls`.
    """
    vectors = [_pool(name, states, input_mask) for name in pooling_names(pooling)]
    return ops.concatenate(vectors, axis=-1) if len(vectors) > 1 else vectors[0]


def pooled_width(pooling: Pooling, hidden_size: int) -> int:
    """Returns the width of the vectors."""
    return hidden_size * len(pooling_names(pooling))


def _pool(
    pooling: PoolingName, states: keras.KerasTensor, input_mask: keras.KerasTensor
) -> keras.KerasTensor:
    if pooling == "cls":
        return ops.cast(states[:, 0], "float32")
    states, mask = ops.cast(states, "float32"), ops.cast(input_mask, "float32")
    if pooling == "max":
        is_token = ops.expand_dims(mask, -1)
        highest = ops.max(states * is_token + (1.0 - is_token) * _LOWEST, axis=1)
        return highest * ops.max(is_token, axis=1)
    return ops.sum(states * ops.expand_dims(_WEIGHTS[pooling](mask), -1), axis=1)


def _count(mask: keras.KerasTensor) -> keras.KerasTensor:
    return ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)


def _numbers(mask: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the number of each token in its text, from 1 on; 0 for padding."""
    return mask * ops.cumsum(ops.ones_like(mask), axis=1)


def _weighted(mask: keras.KerasTensor) -> keras.KerasTensor:
    return _numbers(mask) / _count(_numbers(mask))


def _last(mask: keras.KerasTensor) -> keras.KerasTensor:
    numbers = _numbers(mask)
    last = ops.max(numbers, axis=1, keepdims=True)
    return mask * ops.cast(ops.equal(numbers, last), mask.dtype)


# The weights (B, S) of the states, given the mask.
_WEIGHTS: Mapping[str, Callable[[keras.KerasTensor], keras.KerasTensor]] = {
    "mean": lambda mask: mask / _count(mask),
    "mean_sqrt_len_tokens": lambda mask: mask / ops.sqrt(_count(mask)),
    "weightedmean": _weighted,
    "lasttoken": _last,
}
