"""The base class of models with heads on an encoder."""

import abc
from typing import Any, Self

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.layers.primitives import SeedStream
from albert_tf.models.base_model import BaseModel
from albert_tf.models.encoder import AlbertEncoder


class EncoderWithHeads(BaseModel):
    """An encoder with heads, which a subclass creates.

    Args:
        encoder: the encoder.
        seed: seed of the heads' initialisation and dropout.
        name: name of the model.
        **kwargs: arguments of `keras.Model`.

    Raises:
        InputError: `encoder` is something else, e.g. a config, which `from_encoder_config` takes.
    """

    INPUTS = AlbertEncoder.INPUTS

    def __init__(self, encoder: AlbertEncoder, seed: int | None, name: str, **kwargs):
        if not isinstance(encoder, AlbertEncoder):
            raise InputError(
                f"encoder: expected an AlbertEncoder, received {type(encoder).__name__}; "
                f"`{type(self).__name__}.from_encoder_config` takes a config"
            )
        super().__init__(name=name, **kwargs)
        self.seed = seed
        self.encoder = encoder
        self._seeds = SeedStream(seed)

    @classmethod
    def from_encoder_config(cls, config: AlbertConfig, **kwargs) -> Self:
        """Makes the model with a new encoder, of the same seed and precision."""
        shared = {name: kwargs[name] for name in ("seed", "dtype") if name in kwargs}
        return cls(AlbertEncoder(config, **shared), **kwargs)

    @abc.abstractmethod
    def _build_heads(self, hidden_size: int) -> None:
        """Creates the heads' variables, for inputs of width H."""

    def _head_arguments(self, name: str) -> dict[str, Any]:
        """Returns what the layers of all heads are created with, each with a seed of its own."""
        return {
            "initializer_range": self.config.initializer_range,
            "seed": self._seeds.next(),
            "name": name,
            "dtype": self.dtype_policy,
        }

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
        """Creates the model and its encoder from `get_config`."""
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})
