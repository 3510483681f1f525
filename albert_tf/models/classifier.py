"""The encoder with a classification head, for texts, for choices between texts and for tokens."""

from collections.abc import Mapping
from typing import ClassVar

import keras
from keras import ops

from albert_tf.layers import ClassificationHead
from albert_tf.models.base_model import Input
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.encoder_with_heads import EncoderWithHeads


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertClassifier(EncoderWithHeads):
    """Classifies a text, or a pair of texts, by its pooled output.

    Args:
        encoder: the encoder.
        num_classes: number of classes.
        dropout: rate on the pooled output; the original's 0.1 for all its classifiers.
        seed: seed of the head's initialisation and dropout.
    """

    HEAD_BIAS = "albert_classifier/head/dense/bias"

    def __init__(
        self,
        encoder: AlbertEncoder,
        num_classes: int,
        dropout: float = 0.1,
        seed: int | None = None,
        name: str = "albert_classifier",
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        # Config
        self.num_classes = num_classes
        self.dropout = dropout

        # Layers
        self.head = ClassificationHead(
            num_classes=num_classes, dropout=dropout, **self._head_arguments("head")
        )
        self.build(self.input_shapes)

    def _build_heads(self, hidden_size: int) -> None:
        self.head.build((None, hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Maps the inputs of `AlbertEncoder.call` to logits, float32 (B, num_classes)."""
        encoded = self.encoder(inputs, training=training)
        return self.head(encoded["pooled_output"], training=training)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(EncoderWithHeads):
    """Gives every choice a logit by its pooled output (RACE).

    Args:
        encoder: the encoder.
        dropout: rate on the pooled output; the original's 0.1 for RACE.
        seed: seed of the head's initialisation and dropout.
    """

    INPUTS: ClassVar = {
        "input_ids": Input("BCS", required=True),
        "input_mask": Input("BCS"),
        "segment_ids": Input("BCS"),
        "token_positions": Input("T", exported=False),
    }

    def __init__(
        self,
        encoder: AlbertEncoder,
        dropout: float = 0.1,
        seed: int | None = None,
        name: str = "albert_multiple_choice",
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        # Config
        self.dropout = dropout

        # Layers
        self.head = ClassificationHead(
            num_classes=1, dropout=dropout, **self._head_arguments("head")
        )
        self.build(self.input_shapes)

    def _build_heads(self, hidden_size: int) -> None:
        self.head.build((None, hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Scores a batch.

        Args:
            inputs: those of `AlbertEncoder.call`, a text for every choice: int (B, C, S) where they are
                (B, S) there.
            training: whether dropout is active.

        Returns:
            logits, float32 (B, C).
        """
        _, choices, length = ops.shape(inputs["input_ids"])
        texts = {
            name: ops.reshape(inputs[name], (-1, length))  # (B * C, S)
            for name in ("input_ids", "input_mask", "segment_ids")
            if name in inputs
        }
        if "token_positions" in inputs:
            texts["token_positions"] = inputs["token_positions"]
        encoded = self.encoder(texts, training=training)
        logits = self.head(encoded["pooled_output"], training=training)  # (B * C, 1)
        return ops.reshape(logits, (-1, choices))  # (B, C)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertTokenClassifier(EncoderWithHeads):
    """Classifies every token by its last hidden state (named entities, parts of speech).

    Args:
        encoder: the encoder; it needs no pooler.
        num_classes: number of classes.
        dropout: rate on the hidden states; 0.1 as for the original's classifiers.
        seed: seed of the head's initialisation and dropout.
    """

    HEAD_BIAS = "albert_token_classifier/token_head/dense/bias"

    def __init__(
        self,
        encoder: AlbertEncoder,
        num_classes: int,
        dropout: float = 0.1,
        seed: int | None = None,
        name: str = "albert_token_classifier",
        **kwargs,
    ):
        super().__init__(encoder, seed, name, **kwargs)
        # Config
        self.num_classes = num_classes
        self.dropout = dropout

        # Layers
        self.token_head = ClassificationHead(
            num_classes=num_classes, dropout=dropout, **self._head_arguments("token_head")
        )
        self.build(self.input_shapes)

    def _build_heads(self, hidden_size: int) -> None:
        self.token_head.build((None, None, hidden_size))

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Maps the inputs of `AlbertEncoder.call` to logits, float32 (B, S, num_classes)."""
        encoded = self.encoder(inputs, training=training)
        return self.token_head(encoded["sequence_output"], training=training)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "dropout": self.dropout,
        }
