"""Tables of names: from the paths of our variables to the names that others give to the same weights.

A row is a pattern of our variable paths, the names there, and how a tensor there differs in its axes.
Reading and writing both go by the first row that matches. The first component of our paths is the name
of the model, which its user chooses.
"""

import dataclasses
import re
from collections.abc import Sequence

from albert_tf.checkpoints.tensor_files import Stored
from albert_tf.errors import InputError

MODEL = r"[^/]+/"
ATTENTION = rf"{MODEL}block_\d+/attention_(\d+)_(\d+)/"
FEED_FORWARD = rf"{MODEL}block_\d+/ffn_(\d+)_(\d+)/"

# A pattern of our paths, and how variables that match are held; names refer to the pattern's groups.
Row = tuple[str, Stored]


def row(pattern: str, *names: str, transposed: bool = False, merged_axis: int | None = None) -> Row:
    """Returns a row; for the arguments see `Stored`."""
    return pattern, Stored(names, transposed, merged_axis)


def find(rows: Sequence[Row], path: str, whose: str) -> Stored:
    """Returns how others hold our variable of this path.

    Args:
        rows: their table.
        path: path of our variable.
        whose: who they are, for the message.

    Raises:
        InputError: no row matches.
    """
    for pattern, stored in rows:
        if match := re.fullmatch(pattern, path):
            names = tuple(match.expand(name) for name in stored.names)
            return dataclasses.replace(stored, names=names)
    raise InputError(f"'{path}': {whose} checkpoints have no name for such a variable")
