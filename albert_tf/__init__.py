"""ALBERT (A Lite BERT) in TensorFlow 2 and Keras 3, from raw text to a served model.

The letters of array axes, used in every docstring and shape comment of the package:
B batch, S sequence length, V vocabulary, E embedding, H hidden, N heads, D head size,
F feed-forward, L layers, M masked positions, C choices.
"""

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        f"albert_tf needs Keras' TensorFlow backend, not '{keras.backend.backend()}'; "
        "unset KERAS_BACKEND or set it to tensorflow"
    )

from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint, read_config
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
)
from albert_tf.optimization import AdamWeightDecay, Lamb
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer

__all__ = [
    "AdamWeightDecay",
    "AlbertClassifier",
    "AlbertConditionalSpanLabeler",
    "AlbertConfig",
    "AlbertEncoder",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertSpanLabeler",
    "AlbertTokenizer",
    "Lamb",
    "WordPieceTokenizer",
    "load_checkpoint",
    "read_config",
]
