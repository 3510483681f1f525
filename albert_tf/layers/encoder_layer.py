"""The block that ALBERT applies over and over: self-attention, then feed-forward."""

import keras

from albert_tf.layers.attention import SelfAttention
from albert_tf.layers.feed_forward import FeedForward


@keras.saving.register_keras_serializable(package="albert_tf")
class EncoderLayer(keras.layers.Layer):
    """One Transformer encoder layer, made of its two halves.

    The halves come in from outside, so that two blocks may share one of them: that is how an encoder
    shares its attention alone or its feed-forward part alone.

    Args:
        attention: the first half.
        feed_forward: the second half.
    """

    def __init__(self, attention: SelfAttention, feed_forward: FeedForward, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention
        self.feed_forward = feed_forward

    @property
    def dropouts(self) -> list[keras.layers.Dropout]:
        """The dropout layers of both halves."""
        return [
            self.attention.probability_dropout,
            self.attention.output_dropout,
            self.feed_forward.output_dropout,
        ]

    def build(self, input_shape):
        """Makes the variables of halves that have none yet; `input_shape` is (B, S, H)."""
        for half in (self.attention, self.feed_forward):
            if not half.built:
                half.build(input_shape)

    def call(self, hidden_states, attention_bias, unpadding=None, training=None):
        """Maps hidden states to those of the next layer; see `SelfAttention.call` for the arguments."""
        hidden_states = self.attention(
            hidden_states, attention_bias, unpadding=unpadding, training=training
        )
        return self.feed_forward(hidden_states, training=training)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the next hidden states, which is that of the hidden states."""
        return input_shape

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "attention": keras.saving.serialize_keras_object(self.attention),
            "feed_forward": keras.saving.serialize_keras_object(self.feed_forward),
        }

    @classmethod
    def from_config(cls, config):
        """Makes the layer, and its halves, from `get_config`."""
        halves = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("attention", "feed_forward")
        }
        return cls(**{**config, **halves})
