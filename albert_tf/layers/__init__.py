"""The layers of ALBERT, in `keras.ops` alone."""

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        f"albert_tf needs Keras' TensorFlow backend, not '{keras.backend.backend()}'; "
        "unset KERAS_BACKEND or set it to tensorflow"
    )

from albert_tf.layers.block import EncoderLayer, FeedForward, SelfAttention, Unpadding
from albert_tf.layers.embedding import FactorizedEmbedding
from albert_tf.layers.masked_lm_head import MaskedLMHead
from albert_tf.layers.pooled_heads import PooledClassificationHead, Pooler
from albert_tf.layers.span_heads import ConditionalSpanHead, SpanHead, make_p_mask

__all__ = [
    "ConditionalSpanHead",
    "EncoderLayer",
    "FactorizedEmbedding",
    "FeedForward",
    "MaskedLMHead",
    "PooledClassificationHead",
    "Pooler",
    "SelfAttention",
    "SpanHead",
    "Unpadding",
    "make_p_mask",
]
