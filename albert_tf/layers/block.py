"""The block that ALBERT applies repeatedly: self-attention, then feed-forward.

A layer does most of its work on each token alone, and batches of texts in random order have much
padding. So padding can be removed, and restored where tokens attend to each other (Zeng et al. 2022,
https://arxiv.org/abs/2208.08124).
"""

import math
from collections.abc import Callable

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import primitives

# Added to the attention scores of masked positions, as in BERT.
_MASKED_SCORE = -10000.0


def bias_of_mask(input_mask):
    """Returns the attention bias, float32 (B, 1, 1, S), of a mask (B, S), which is 0 for padding."""
    bias = (1.0 - ops.cast(input_mask, "float32")) * _MASKED_SCORE
    # LiteRT has no operator for indexing with None.
    return ops.expand_dims(bias, (1, 2))


class Unpadding:
    """Removes the padding of a batch of S = `length`, and restores it.

    `token_positions`, int (T,), are those of the tokens among all B * S, ascending, including the first
    of each sequence.
    """

    def __init__(self, token_positions, batch_size, length):
        self.length = length
        self._positions = ops.cast(token_positions, "int32")
        size = (batch_size * length,)
        is_token = ops.scatter(self._positions[:, None], ops.ones_like(self._positions), size)
        # Padding takes the value of the token before it, which is of the same sequence.
        self._rows = ops.cumsum(is_token) - 1

    def remove(self, x):
        """Returns the rows of the tokens, (T, width), given those of all positions, (..., width)."""
        return ops.take(primitives.as_rows(x), self._positions, axis=0)

    def restore(self, rows):
        """Returns rows of all positions, (B * S, width). Those of padding are undefined."""
        return ops.take(rows, self._rows, axis=0)

    def take_positions(self, rows, positions):
        """Returns the rows (B, M, width) of positions (B, M), given the rows of the tokens."""
        numbers = ops.take(self._rows, primitives.rows_of(positions, self.length), axis=0)
        return ops.reshape(
            ops.take(rows, numbers, axis=0), (-1, ops.shape(positions)[1], rows.shape[-1])
        )


class SelfAttention(primitives.BaseLayer):
    """Post-norm self-attention: `layer_norm(x + dropout(dense(attention(x))))`.

    `training_kernel` computes the context of query, key and value (B, N, S, D) and attention bias in
    training, where all positions are computed, the shape is known, and S is even.
    """

    def __init__(self, config: AlbertConfig, training_kernel: Callable | None = None, **kwargs):
        super().__init__(config, **kwargs)
        self._training_kernel = training_kernel
        width = config.hidden_size
        self.query, self.key, self.value, self.output_dense = (
            self._dense(name, width, width) for name in ("query", "key", "value", "output")
        )
        self.layer_norm = self._layer_norm(width)
        self.probability_dropout = self._dropout(
            "probability_dropout", config.attention_probs_dropout_prob
        )
        self.output_dropout = self._dropout("output_dropout", config.hidden_dropout_prob)

    def call(
        self, hidden_states, attention_bias, unpadding=None, output_positions=None, training=None
    ):
        """Lets each position attend to those of its sequence.

        Args:
            hidden_states: float (B, S, H), or (T, H) with `unpadding`.
            attention_bias: that of `bias_of_mask`, which is added to the scores.
            unpadding: `Unpadding` of the batch if its padding was removed.
            output_positions: int (B, M), the positions to compute, and to return; by default all.
            training: whether dropout is active.
        """
        rows = primitives.as_rows(hidden_states)  # (B * S, H) or (T, H)
        length = ops.shape(hidden_states)[1] if unpadding is None else unpadding.length
        key, value = (
            self._split_heads(projection(rows), length, unpadding)
            for projection in (self.key, self.value)
        )
        if output_positions is not None:
            take = primitives.take_positions if unpadding is None else unpadding.take_positions
            hidden_states = take(hidden_states, output_positions)  # (B, M, H)
            rows = primitives.as_rows(hidden_states)  # (B * M, H)
            length, unpadding = ops.shape(output_positions)[1], None
        query = self._split_heads(self.query(rows), length, unpadding)
        shape = tuple(query.shape)
        has_kernel = training and self._training_kernel and output_positions is None
        if has_kernel and None not in shape and shape[2] % 2 == 0:
            context = self._training_kernel(query, key, value, attention_bias)
        else:
            context = self._attend(query, key, value, attention_bias, training)
        output = self.output_dense(self._join_heads(context, unpadding))
        output = self.layer_norm(rows + self.output_dropout(output, training=training))
        return ops.reshape(output, ops.shape(hidden_states))

    def _attend(self, query, key, value, attention_bias, training):
        """Returns the context (B, N, S or M, D)."""
        scale = 1.0 / math.sqrt(self.config.hidden_size // self.config.num_attention_heads)
        scores = ops.matmul(query * scale, ops.transpose(key, (0, 1, 3, 2)))  # (B, N, S or M, S)
        # float32, because 16 bits cannot tell close scores apart.
        scores = ops.cast(scores, "float32") + ops.cast(attention_bias, "float32")
        probabilities = ops.softmax(scores)
        probabilities = ops.cast(probabilities, self.compute_dtype)
        probabilities = self.probability_dropout(probabilities, training=training)
        return ops.matmul(probabilities, value)

    def _split_heads(self, rows, length, unpadding):
        if unpadding is not None:
            rows = unpadding.restore(rows)  # (B * S, H)
        heads = self.config.num_attention_heads
        x = ops.reshape(rows, (-1, length, heads, self.config.hidden_size // heads))  # (B, S, N, D)
        return ops.transpose(x, (0, 2, 1, 3))  # (B, N, S, D)

    def _join_heads(self, x, unpadding):
        x = ops.transpose(x, (0, 2, 1, 3))  # (B, S, N, D)
        rows = ops.reshape(x, (-1, self.config.hidden_size))  # (B * S, H)
        return rows if unpadding is None else unpadding.remove(rows)


class FeedForward(primitives.BaseLayer):
    """Post-norm feed-forward: `layer_norm(x + dropout(dense(activation(dense(x)))))`."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.intermediate = self._dense(
            "intermediate", config.hidden_size, config.intermediate_size
        )
        self.output_dense = self._dense("output", config.intermediate_size, config.hidden_size)
        self.layer_norm = self._layer_norm(config.hidden_size)
        self.output_dropout = self._dropout("output_dropout", config.hidden_dropout_prob)

    def call(self, hidden_states, training=None):
        """Transforms each position of float (..., H) independently."""
        rows = primitives.as_rows(hidden_states)  # (T, H)
        activate = primitives.activation(self.config.hidden_act, training)
        intermediate = activate(self.intermediate(rows))  # (T, F)
        output = self.output_dense(intermediate)
        output = self.layer_norm(rows + self.output_dropout(output, training=training))
        return ops.reshape(output, ops.shape(hidden_states))


class EncoderLayer(keras.layers.Layer):
    """One Transformer encoder layer, made of its two halves.

    The halves are arguments so that two blocks can share one of them, as in an encoder that shares only
    its attention or only its feed-forward layers.
    """

    def __init__(self, attention: SelfAttention, feed_forward: FeedForward, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention
        self.feed_forward = feed_forward

    def build(self, input_shape):
        """Creates the variables of halves that are not built yet; `input_shape` is (B, S, H)."""
        for half in (self.attention, self.feed_forward):
            if not half.built:
                half.build(input_shape)

    def call(
        self, hidden_states, attention_bias, unpadding=None, output_positions=None, training=None
    ):
        """Returns the hidden states of the next layer; for the arguments see `SelfAttention.call`."""
        hidden_states = self.attention(
            hidden_states,
            attention_bias,
            unpadding=unpadding,
            output_positions=output_positions,
            training=training,
        )
        return self.feed_forward(hidden_states, training=training)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the hidden states."""
        return input_shape
