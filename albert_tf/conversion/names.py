"""What all conversions share: tables of names, and how others share weights.

A row of a table has a pattern of our variable paths, the names that others give to the same weights, and
how their tensor's axes differ. Reading and writing use the first row that matches. The first component of
our paths is the name of the model, which its user chooses.
"""

import dataclasses
import re
from collections.abc import Sequence

from albert_tf.checkpoints.tensor_files import Layout, Stored
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

MODEL = r"[^/]+/"
ATTENTION = rf"{MODEL}block_\d+/attention_(\d+)_(\d+)/"
FEED_FORWARD = rf"{MODEL}block_\d+/ffn_(\d+)_(\d+)/"

# A pattern of our paths, and how matching variables are stored; names may refer to the pattern's groups.
Row = tuple[str, Stored]


def row(pattern: str, *names: str, transposed: bool = False, merged_axis: int | None = None) -> Row:
    """Returns a row; for the arguments see `Stored`."""
    return pattern, Stored(names, transposed, merged_axis)


def make_layout(rows: Sequence[Row], whose: str) -> Layout:
    """Returns a function from a variable's path to how others store it, given their table.

    The function raises an `InputError` if no row matches; `whose` says who the others are.
    """

    def layout(path: str) -> Stored:
        for pattern, stored in rows:
            if match := re.fullmatch(pattern, path):
                names = tuple(match.expand(name) for name in stored.names)
                return dataclasses.replace(stored, names=names)
        raise InputError(f"'{path}': {whose} checkpoints have no name for such a variable")

    return layout


def in_groups(config: AlbertConfig, whose: str) -> AlbertConfig:
    """Returns the config under which others have the same layers with the same weights.

    The original and its successors share whole blocks only. Without sharing they have L groups.

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
