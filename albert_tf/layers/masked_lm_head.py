"""The masked-LM head: hidden states of M positions to logits over the vocabulary."""

import keras
from keras import ops

from albert_tf.layers import primitives


@keras.saving.register_keras_serializable(package="albert_tf")
class MaskedLMHead(keras.layers.Layer):
    """Dense H -> E, activation, layer norm, then the transposed word table and a bias.

    The word table is given at each call and not owned: input and output embeddings are one variable.

    Args:
        vocab_size: V.
        embedding_size: E.
        activation: name of the activation, see `AlbertConfig.hidden_act`.
        initializer_range: standard deviation of the initial kernel.
        seed: seed of the initialisation.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        activation: str = "gelu",
        initializer_range: float = 0.02,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        # Config
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.activation = activation
        self.initializer_range = initializer_range
        self.seed = seed

        # Layers
        seeds = primitives.SeedStream(seed)
        self.transform = primitives.dense(
            embedding_size, initializer_range, seeds, "transform", self
        )
        self.layer_norm = primitives.layer_norm(self)
        self._activate = primitives.activation(activation)

    def build(self, hidden_states_shape):
        """Creates the variables; `hidden_states_shape` is (B, M, H)."""
        self.transform.build(hidden_states_shape)
        self.layer_norm.build((*hidden_states_shape[:-1], self.embedding_size))
        self.output_bias = self.add_weight(
            shape=(self.vocab_size,), initializer="zeros", name="output_bias"
        )

    def call(self, hidden_states, word_embeddings):
        """Predicts the pieces at the masked positions.

        Args:
            hidden_states: float (B, M, H), those of the masked positions.
            word_embeddings: float (V, E), the encoder's table.

        Returns:
            logits, float32 (B, M, V).
        """
        count = ops.shape(hidden_states)[1]
        rows = primitives.as_rows(hidden_states)  # (B * M, H)
        transformed = self.layer_norm(self._activate(self.transform(rows)))  # (B * M, E)
        logits = ops.matmul(transformed, ops.transpose(word_embeddings))
        logits = ops.cast(logits, "float32") + ops.cast(self.output_bias, "float32")
        return ops.reshape(logits, (-1, count, self.vocab_size))  # (B, M, V)

    def compute_output_shape(self, hidden_states_shape):
        """Returns (B, M, V)."""
        return *hidden_states_shape[:2], self.vocab_size

    # Traces `call`: from shapes alone Keras would give the outputs the dtype of the policy.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "embedding_size": self.embedding_size,
            "activation": self.activation,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }
