"""The pooler, and the heads of pre-training and classification."""

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import primitives


class Pooler(primitives.BaseLayer):
    """The hidden state of [CLS] through a tanh dense layer, H -> H."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.dense = self._dense("dense", config.hidden_size, config.hidden_size)

    def call(self, sequence_output):
        """Maps `sequence_output` (B, S, H) to (B, H)."""
        return ops.tanh(self.dense(sequence_output[:, 0]))


class ClassificationHead(primitives.BaseLayer):
    """Dropout and a dense layer, H -> logits, for pooled outputs or for each token."""

    def __init__(self, config: AlbertConfig, num_classes: int, dropout: float = 0.0, **kwargs):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        self.input_dropout = self._dropout("input_dropout", dropout)
        self.dense = self._dense("dense", config.hidden_size, num_classes)

    def call(self, hidden_states, training=None):
        """Maps `hidden_states` (..., H) to float32 logits (..., num_classes)."""
        dropped = self.input_dropout(hidden_states, training=training)
        return ops.cast(self.dense(dropped), "float32")


class ReplacedTokenHead(primitives.BaseLayer):
    """The head that finds replaced tokens: dense H -> H, activation, dense H -> 1, as in ELECTRA's code.

    https://github.com/google-research/electra, `_get_discriminator_output`.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.transform = self._dense("transform", config.hidden_size, config.hidden_size)
        self.dense = self._dense("dense", config.hidden_size, 1)

    def call(self, hidden_states, training=None):
        """Maps `hidden_states` (B, S, H) to float32 logits (B, S)."""
        activate = primitives.activation(self.config.hidden_act, training)
        rows = primitives.as_rows(hidden_states)  # (B * S, H)
        logits = self.dense(activate(self.transform(rows)))
        return ops.cast(ops.reshape(logits, ops.shape(hidden_states)[:2]), "float32")


class MaskedLMHead(primitives.BaseLayer):
    """The masked-LM head: dense H -> E, activation, layer norm, the transposed word table, a bias.

    The word table is given at each call and not owned: input and output embeddings are one variable.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.transform = self._dense("transform", config.hidden_size, config.embedding_size)
        self.layer_norm = self._layer_norm(config.embedding_size)
        self._activate = primitives.activation(config.hidden_act)

    def build(self, input_shape):
        """Creates the variables; `input_shape` is (B, M, H)."""
        super().build(input_shape)
        self.output_bias = self.add_weight(
            shape=(self.config.vocab_size,), initializer="zeros", name="output_bias"
        )

    def call(self, hidden_states, word_embeddings):
        """Returns the logits, float32 (B, M, V), of the pieces at the masked positions.

        `hidden_states` are those positions', float (B, M, H), and `word_embeddings` the encoder's table
        (V, E).
        """
        count = ops.shape(hidden_states)[1]
        rows = primitives.as_rows(hidden_states)  # (B * M, H)
        transformed = self.layer_norm(self._activate(self.transform(rows)))  # (B * M, E)
        table = ops.cast(word_embeddings, self.compute_dtype)
        logits = ops.matmul(transformed, ops.transpose(table))
        logits = ops.cast(logits, "float32") + ops.cast(self.output_bias, "float32")
        return ops.reshape(logits, (-1, count, self.config.vocab_size))  # (B, M, V)

    def compute_output_shape(self, input_shape):
        """Returns (B, M, V), given (B, M, H)."""
        return *input_shape[:2], self.config.vocab_size
