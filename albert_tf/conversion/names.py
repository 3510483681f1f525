"""Tables of names: from the paths of our variables to the names that others give to the same weights.

A row is a pattern of our variable paths, the names there, and whether a kernel lies transposed there.
Reading and writing both go by the first row that matches. The first component of our paths is the name
of the model, which its user chooses.
"""

import re
from collections.abc import Sequence

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import Stored

MODEL = r"[^/]+/"
ATTENTION = rf"{MODEL}block_\d+/attention_(\d+)_(\d+)/"
FEED_FORWARD = rf"{MODEL}block_\d+/ffn_(\d+)_(\d+)/"

# (pattern of our paths, names of the tensors whose product it is, whether transposed)
Row = tuple[str, tuple[str, ...], bool]


def row(pattern: str, *names: str, transposed: bool = False) -> Row:
    """Returns a row; the names may refer to groups of the pattern."""
    return pattern, names, transposed


def find(rows: Sequence[Row], path: str, whose: str) -> Stored:
    """Returns how others hold our variable of this path.

    Args:
        rows: their table.
        path: path of our variable.
        whose: who they are, for the message.

    Raises:
        InputError: no row matches.
    """
    for pattern, names, transposed in rows:
        if match := re.fullmatch(pattern, path):
            return Stored(tuple(match.expand(name) for name in names), transposed)
    raise InputError(f"'{path}': {whose} checkpoints have no name for such a variable")
