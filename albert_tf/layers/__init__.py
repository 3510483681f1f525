"""The layers of ALBERT, in `keras.ops` alone."""

from albert_tf.layers.block import EncoderLayer, FeedForward, SelfAttention, Unpadding
from albert_tf.layers.embedding import FactorizedEmbedding
from albert_tf.layers.heads import (
    ClassificationHead,
    EmbeddingHead,
    MaskedLMHead,
    Pooler,
    Pooling,
)
from albert_tf.layers.span_heads import ConditionalSpanHead, SpanHead, make_p_mask

__all__ = [
    "ClassificationHead",
    "ConditionalSpanHead",
    "EmbeddingHead",
    "EncoderLayer",
    "FactorizedEmbedding",
    "FeedForward",
    "MaskedLMHead",
    "Pooler",
    "Pooling",
    "SelfAttention",
    "SpanHead",
    "Unpadding",
    "make_p_mask",
]
