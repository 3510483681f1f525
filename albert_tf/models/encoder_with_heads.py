"""What all models that put heads on the encoder have in common: its inputs and the way into a file."""

import abc

import keras

from albert_tf.config import AlbertConfig
from albert_tf.models.base_model import BaseModel
from albert_tf.models.encoder import AlbertEncoder


class EncoderWithHeads(BaseModel):
    """An encoder with heads, which a subclass makes.

    Args:
        encoder: the encoder.
        seed: of the heads' starting values and dropout.
        name: of the model.
        **kwargs: those of `keras.Model`.
    """

    INPUTS = AlbertEncoder.INPUTS

    def __init__(self, encoder: AlbertEncoder, seed: int | None, name: str, **kwargs):
        super().__init__(name=name, **kwargs)
        self.seed = seed
        self.encoder = encoder

    @abc.abstractmethod
    def _build_heads(self, hidden_size: int) -> None:
        """Makes the heads' variables; their inputs have width H."""

    @property
    def config(self) -> AlbertConfig:
        """The encoder's config."""
        return self.encoder.config

    def _build_layers(self) -> None:
        self._build_heads(self.config.hidden_size)

    def get_config(self):
        """Returns the arguments of the constructor; a subclass adds its own."""
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        """Makes the model, and its encoder, from `get_config`."""
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})
