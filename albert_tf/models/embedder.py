"""The encoder with a pooling of its hidden states: embeddings of texts."""

from collections.abc import Mapping

import keras
from keras import ops

from albert_tf.layers import EmbeddingHead, Pooling
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.encoder_with_heads import EncoderWithHeads


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEmbedder(EncoderWithHeads):
    """Embeds texts, for search, clustering or similarity.

    Args:
        encoder: the encoder; it needs no pooler.
        pooling: `mean` takes the mean of the last hidden states of all tokens, `cls` the last hidden
            state of [CLS], `weighted_layers` a learned mean over the layers of the means of each; see
            `albert_tf.layers.EmbeddingHead`.
        normalize: whether embeddings have the length 1, so that dot products are cosines.

    Raises:
        ArgumentError: there is no such pooling.
    """

    def __init__(
        self,
        encoder: AlbertEncoder,
        pooling: Pooling = "mean",
        normalize: bool = False,
        seed: int | None = None,
        name: str = "albert_embedder",
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        # Config
        self.pooling = pooling
        self.normalize = normalize

        # Layers
        self.embedding_head = EmbeddingHead(
            pooling, normalize, name="embedding_head", dtype=self.dtype_policy
        )
        self.build(self.input_shapes)

    def _build_heads(self, hidden_size: int) -> None:
        self.embedding_head.build([(None, None, hidden_size)] * len(self.encoder.block_order))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Maps the inputs of `AlbertEncoder.call` to embeddings, float32 (B, H)."""
        encoded = self.encoder(inputs, training=training)
        input_mask = inputs.get("input_mask")
        if input_mask is None:
            input_mask = ops.ones_like(inputs["input_ids"])
        return self.embedding_head(encoded["encoder_outputs"], input_mask)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "pooling": self.pooling, "normalize": self.normalize}
