"""What all models that put heads on the encoder have in common: building and the way into a file."""

import abc

import keras

from albert_tf.models.encoder import AlbertEncoder


class EncoderWithHeads(keras.Model, abc.ABC):
    """An encoder with heads; a subclass makes them and ends its constructor with `self.build()`.

    Args:
        encoder: the encoder.
        seed: of the heads' starting values and dropout.
        name: of the model.
        **kwargs: those of `keras.Model`.
    """

    def __init__(self, encoder: AlbertEncoder, seed: int | None, name: str, **kwargs):
        super().__init__(name=name, **kwargs)
        self.seed = seed
        self.encoder = encoder

    @abc.abstractmethod
    def _build_heads(self, hidden_size: int) -> None:
        """Makes the heads' variables; their inputs have width H."""

    def build(self, input_shape=None):
        """Makes all variables; they do not depend on `input_shape`."""
        if self.built:
            return
        self._build_heads(self.encoder.config.hidden_size)
        self.built = True

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
