"""The masked-LM head: hidden states at M positions to logits over the vocabulary."""

import keras
from keras import ops

from albert_tf.layers import primitives


@keras.saving.register_keras_serializable(package="albert_tf")
class MaskedLMHead(keras.layers.Layer):
    """Gather, dense H -> E, activation, layer norm, then the transposed word table and a bias.

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

    def build(self, sequence_output_shape):
        """Creates the variables; `sequence_output_shape` is (B, S, H)."""
        self.transform.build(sequence_output_shape)
        self.layer_norm.build((*sequence_output_shape[:-1], self.embedding_size))
        self.output_bias = self.add_weight(
            shape=(self.vocab_size,), initializer="zeros", name="output_bias"
        )

    def call(self, sequence_output, positions, word_embeddings):
        """Predicts the pieces at the masked positions.

        Args:
            sequence_output: float (B, S, H).
            positions: int (B, M), in [0, S).
            word_embeddings: float (V, E), the encoder's table.

        Returns:
            logits, float32 (B, M, V).
        """
        _, length, hidden_size = ops.shape(sequence_output)
        # As they come, integers of 8 or 16 bits might not reach B * S.
        positions = ops.cast(positions, "int32")
        count = ops.shape(positions)[1]
        rows = ops.arange(ops.shape(positions)[0], dtype="int32")[:, None] * length
        flat = ops.reshape(sequence_output, (-1, hidden_size))  # (B * S, H)
        gathered = ops.take(flat, ops.reshape(positions + rows, (-1,)), axis=0)  # (B * M, H)
        transformed = self.layer_norm(self._activate(self.transform(gathered)))  # (B * M, E)
        logits = ops.matmul(transformed, ops.transpose(word_embeddings))
        logits = ops.cast(logits, "float32") + ops.cast(self.output_bias, "float32")
        return ops.reshape(logits, (-1, count, self.vocab_size))  # (B, M, V)

    def compute_output_shape(self, sequence_output_shape):
        """Returns (B, M, V); M is unknown."""
        return sequence_output_shape[0], None, self.vocab_size

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
