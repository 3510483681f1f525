"""The encoder with a classification head."""

from collections.abc import Mapping

import keras

from albert_tf.layers import PooledClassificationHead
from albert_tf.layers.common import SeedStream
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.encoder_with_heads import EncoderWithHeads


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertClassifier(EncoderWithHeads):
    """Classifies a text, or a pair of texts, by its pooled output.

    Args:
        encoder: the encoder.
        num_classes: number of classes.
        dropout: rate on the pooled output; the original's 0.1 for all its classifiers.
        seed: of the head's starting values and dropout.
    """

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
        self.head = PooledClassificationHead(
            num_classes=num_classes,
            dropout=dropout,
            initializer_range=encoder.config.initializer_range,
            seed=SeedStream(seed).next(),
            name="head",
            dtype=self.dtype_policy,
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
