"""The encoder with a head that chooses one of several texts."""

from collections.abc import Mapping

import keras
from keras import ops

from albert_tf.layers import PooledClassificationHead
from albert_tf.layers.common import SeedStream
from albert_tf.models.encoder import AlbertEncoder


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(keras.Model):
    """Gives every choice a logit by its pooled output (RACE).

    Args:
        encoder: the encoder.
        dropout: rate on the pooled output; the original's 0.1 for RACE.
        seed: of the head's starting values and dropout.
    """

    def __init__(
        self,
        encoder: AlbertEncoder,
        dropout: float = 0.1,
        seed: int | None = None,
        name: str = "albert_multiple_choice",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        # Config
        self.dropout = dropout
        self.seed = seed

        # Layers
        self.encoder = encoder
        self.head = PooledClassificationHead(
            num_classes=1,
            dropout=dropout,
            initializer_range=encoder.config.initializer_range,
            seed=SeedStream(seed).next(),
            name="head",
            dtype=self.dtype_policy,
        )
        self.build()

    def build(self, input_shape=None):
        """Makes all variables; they do not depend on `input_shape`."""
        if self.built:
            return
        self.head.build((None, self.encoder.config.hidden_size))
        self.built = True

    def call(self, inputs: Mapping[str, keras.KerasTensor], training=None):
        """Scores a batch.

        Args:
            inputs: those of `AlbertEncoder.call`, each int (B, C, S): a text for every choice.
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
        encoded = self.encoder(texts, training=training)
        logits = self.head(encoded["pooled_output"], training=training)  # (B * C, 1)
        return ops.reshape(logits, (-1, choices))  # (B, C)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "dropout": self.dropout,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        """Makes the model, and its encoder, from `get_config`."""
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})
