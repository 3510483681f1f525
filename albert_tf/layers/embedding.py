"""The factorized embedding: V x E tables, then E -> H.

Section 3.1 of the paper: the tables are learnt without context and need less width than the hidden
states, so V x H parameters become V x E + E x H.
"""

from keras import ops

from albert_tf.backends import BACKEND
from albert_tf.config import AlbertConfig
from albert_tf.layers import primitives


class FactorizedEmbedding(primitives.BaseLayer):
    """Sums word, position and segment embeddings, normalises, drops out and projects.

    Where H equals E there is no projection. `use_one_hot` looks words up by a product with one-hot
    vectors, which suits TPUs, and not by a gather.

    Training looks rows up and sums them in float32 also in mixed precision: the gradient of a frequent
    piece is a sum of many rows, which GPUs add slowly in 16 bits. Otherwise the tables are cast as all
    weights are, so an exported model stores them in 16 bits.
    """

    def __init__(self, config: AlbertConfig, use_one_hot: bool = False, **kwargs):
        super().__init__(config, **kwargs)
        self.use_one_hot = use_one_hot
        self.layer_norm = self._layer_norm(config.embedding_size)
        self.output_dropout = self._dropout("output_dropout", config.hidden_dropout_prob)
        self.projection = None
        if config.embedding_size != config.hidden_size:
            self.projection = self._dense("projection", config.embedding_size, config.hidden_size)

    def build(self, input_shape):
        """Makes the three tables (V, E), (positions, E), (segments, E) and the layers' variables."""
        config = self.config
        self.word_embeddings = self._add_table("word_embeddings", config.vocab_size)
        self.position_embeddings = self._add_table(
            "position_embeddings", config.max_position_embeddings
        )
        self.segment_embeddings = self._add_table("segment_embeddings", config.type_vocab_size)
        super().build(input_shape)

    def _add_table(self, name: str, rows: int):
        shape = (rows, self.config.embedding_size)
        return self.add_weight(
            shape=shape, initializer=self._initializer(), name=name, autocast=False
        )

    def call(self, input_ids, segment_ids, training=None):
        """Returns the normalised embeddings (B, S, E) and the first hidden states (B, S, H).

        `input_ids` and `segment_ids` are int (B, S), in [0, V) and in [0, `type_vocab_size`).
        """
        # TensorFlow looks up by indices of some integer dtypes alone.
        input_ids, segment_ids = ops.cast(input_ids, "int32"), ops.cast(segment_ids, "int32")
        length = ops.shape(input_ids)[1]
        dtype = "float32" if training else self.compute_dtype
        words, positions, segments = (
            ops.cast(table, dtype)
            for table in (self.word_embeddings, self.position_embeddings, self.segment_embeddings)
        )
        if BACKEND == "jax" and not isinstance(length, int):
            # The free length of a functional model or a summary, which no slice can have.
            positions = ops.take(positions, ops.arange(length), axis=0)
        else:
            positions = positions[:length]
        embeddings = (
            self._look_up(words, input_ids) + positions + _look_up_few(segments, segment_ids)
        )  # (B, S, E)
        embeddings = self.output_dropout(self.layer_norm(embeddings), training=training)
        if self.projection is None:
            return embeddings, embeddings
        return embeddings, self.projection(embeddings)

    def _look_up(self, table, ids):
        if self.use_one_hot:
            return primitives.take_by_product(table, ids)
        return ops.take(table, ids, axis=0)

    def compute_output_shape(self, input_shape):
        """Returns the shapes of both outputs, (B, S, E) and (B, S, H)."""
        sizes = self.config.embedding_size, self.config.hidden_size
        return tuple((*input_shape, size) for size in sizes)


def _look_up_few(table, ids):
    """Returns the rows (B, S, E) of a small table, whose gradients are sums of many rows."""
    rows = primitives.take_positions(table[None], ops.reshape(ids, (1, -1)))  # (1, B * S, E)
    return ops.reshape(rows, (*ops.shape(ids), table.shape[-1]))
