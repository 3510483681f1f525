"""Ordered tables of names: from the paths of our variables to how another's checkpoints hold them.

The first component of our paths is the name of the model, which its user chooses.
"""

import dataclasses
import re

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import Stored

MODEL = r"[^/]+/"

# A pattern of our paths, and how variables that match are held; names refer to the pattern's groups.
Row = tuple[str, Stored]


def find(rows: list[Row], path: str, holder: str) -> Stored:
    """Returns how checkpoints hold our variable of this path, by the first row that matches.

    Args:
        rows: the table.
        path: of the variable.
        holder: whose checkpoints, in words, for the error.

    Raises:
        InputError: no row matches.
    """
    for pattern, stored in rows:
        if match := re.fullmatch(pattern, path):
            names = tuple(match.expand(name) for name in stored.names)
            return dataclasses.replace(stored, names=names)
    raise InputError(f"'{path}': {holder} checkpoints have no name for such a variable")
