"""The one way in which others share weights: groups of whole blocks."""

import dataclasses

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError


def in_groups(config: AlbertConfig, whose: str) -> AlbertConfig:
    """Returns the config under which others have the same layers with the same weights.

    The original and those who follow it share whole blocks alone. Layers of their own are what they have
    as L groups.

    Args:
        config: ours.
        whose: who the others are, for the message.

    Raises:
        InputError: they have no such model.
    """
    if config.sharing == "all":
        return config
    layers = list(range(config.num_hidden_layers))
    there = dataclasses.replace(config, sharing="all", num_hidden_groups=config.num_hidden_layers)
    own = config.sharing == "none" or [config.group_of_layer(layer) for layer in layers] == layers
    if not own or [there.group_of_layer(layer) for layer in layers] != layers:
        raise InputError(
            f"sharing '{config.sharing}' with {config.num_hidden_layers} layers in "
            f"{config.num_hidden_groups} groups: {whose} checkpoints hold whole blocks only, shared "
            "by all layers of a group"
        )
    return there
