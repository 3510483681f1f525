"""The layers of ALBERT, in `keras.ops` alone."""

from albert_tf.layers.block import EncoderLayer, FeedForward, SelfAttention, Unpadding
from albert_tf.layers.classification_head import ClassificationHead, Pooler
from albert_tf.layers.embedding import FactorizedEmbedding
from albert_tf.layers.embedding_head import EmbeddingHead, Pooling
from albert_tf.layers.masked_lm_head import MaskedLMHead
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
