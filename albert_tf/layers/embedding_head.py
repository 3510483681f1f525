"""The head that pools the hidden states of a text into its embedding."""

from collections.abc import Sequence
from typing import Literal, get_args

import keras
from keras import ops

from albert_tf.errors import ArgumentError

Pooling = Literal["mean", "cls", "weighted_layers"]


@keras.saving.register_keras_serializable(package="albert_tf")
class EmbeddingHead(keras.layers.Layer):
    """Pools hidden states (B, S, H) of the layers into embeddings (B, H).

    Args:
        pooling: `mean` takes the mean of the last hidden states of all tokens, `cls` the last hidden
            state of [CLS]. `weighted_layers` takes the mean over the tokens of each layer and returns
            the weighted mean of the layers. The weights are the softmax of one variable per layer (Peters
            et al. 2018, https://arxiv.org/abs/1802.05365, equation 1 without its scale) and equal before
            training.
        normalize: whether embeddings have the length 1, so that dot products are cosines.

    Raises:
        ArgumentError: there is no such pooling.
    """

    def __init__(self, pooling: Pooling = "mean", normalize: bool = False, **kwargs):
        super().__init__(**kwargs)
        if pooling not in get_args(Pooling):
            raise ArgumentError(
                f"pooling={pooling!r}: expected one of {', '.join(get_args(Pooling))}"
            )
        self.pooling = pooling
        self.normalize = normalize
        self.layer_weights = None

    def build(self, encoder_outputs_shape):
        """Creates the variable; `encoder_outputs_shape` is a list of (B, S, H), one per layer."""
        if self.pooling == "weighted_layers":
            self.layer_weights = self.add_weight(
                shape=(len(encoder_outputs_shape),), initializer="zeros", name="layer_weights"
            )
        self.built = True

    def call(self, encoder_outputs: Sequence, input_mask):
        """Pools the hidden states.

        Args:
            encoder_outputs: a list of (B, S, H), one per layer.
            input_mask: int (B, S), 0 for padding.

        Returns:
            float32 (B, H).
        """
        if self.pooling == "cls":
            embeddings = ops.cast(encoder_outputs[-1][:, 0], "float32")
        else:
            shares = ops.expand_dims(ops.cast(input_mask, "float32"), -1)  # (B, S, 1)
            # A sequence of padding alone has the embedding 0.
            shares = shares / ops.maximum(ops.sum(shares, axis=1, keepdims=True), 1.0)
            layers = encoder_outputs if self.pooling == "weighted_layers" else encoder_outputs[-1:]
            means = [ops.sum(ops.cast(x, "float32") * shares, axis=1) for x in layers]
            embeddings = means[-1]
            if self.pooling == "weighted_layers":
                weights = ops.softmax(ops.cast(self.layer_weights, "float32"))  # (L,)
                weights = ops.reshape(weights, (-1, 1, 1))
                embeddings = ops.sum(ops.stack(means) * weights, axis=0)
        return ops.normalize(embeddings) if self.normalize else embeddings

    def compute_output_shape(self, encoder_outputs_shape, input_mask_shape=None):
        """Returns (B, H)."""
        batch_size, _, hidden_size = encoder_outputs_shape[-1]
        return batch_size, hidden_size

    # Traces `call`: from shapes alone Keras would give the outputs the dtype of the policy.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "pooling": self.pooling, "normalize": self.normalize}
