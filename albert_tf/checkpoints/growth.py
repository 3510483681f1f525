"""Tables of a model with more rows than its checkpoint has: added pieces, and more positions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.checkpoints.tensors import PIECE_TABLES
from albert_tf.config import AlbertConfig

_POSITIONS = "/position_embeddings"
# The first and the last rows, of positions where hardly more than [CLS] and [SEP] stand, leave the path.
_NO_PATH = 2, 8
_DIMENSIONS = 13  # in which the path moves


class _Described(NamedTuple):
    """What a checkpoint is asked for in place of a variable: its shape and its type there."""

    shape: tuple[int, ...]
    dtype: str


def continue_positions(rows: np.ndarray, count: int) -> np.ndarray:
    """Returns the rows (count, E) of positions that follow those with the rows (n, E).

    Trained rows move on a path, a rotation in few dimensions, which goes on. The rotation is the one that
    best maps each row to the next (orthogonal Procrustes).
    """
    first, last = _NO_PATH if len(rows) > 2 * sum(_NO_PATH) else (0, 0)
    known = rows[first : len(rows) - last].astype(np.float64)
    center = known.mean(axis=0)
    axes = np.linalg.svd(known - center, full_matrices=False)[2][:_DIMENSIONS]
    path = (known - center) @ axes.T
    left, _, right = np.linalg.svd(path[:-1].T @ path[1:])
    places, rotation = [path[-1]], left @ right
    for _ in range(last + count):
        places.append(places[-1] @ rotation)
    new = center + np.asarray(places[1 + last :]).reshape(-1, len(axes)) @ axes
    return new.astype(rows.dtype)


@dataclasses.dataclass(frozen=True)
class Growth:
    """How the rows of a model that a checkpoint lacks are made of those that it has.

    The row of an added piece begins as the mean of the rows of the pieces that its text had. The rows of
    positions are continued, see `continue_positions`.

    Attributes:
        config: that of the checkpoint.
        pieces: for each added piece, the last ones of the model's vocabulary, the ids of its former
            pieces.
    """

    config: AlbertConfig
    pieces: Sequence[Sequence[int]] = ()

    def config_of(self, config: AlbertConfig) -> AlbertConfig:
        """Returns the config of the checkpoint's part of a model, given the model's."""
        return dataclasses.replace(
            config,
            vocab_size=self.config.vocab_size if self.pieces else config.vocab_size,
            max_position_embeddings=self.config.max_position_embeddings,
        )

    def stored(self, variables: Mapping[str, keras.Variable]) -> dict[str, _Described]:
        """Returns what the checkpoint has of a model's variables, both by path."""
        return {
            path: _Described((self._rows(path, variable), *variable.shape[1:]), variable.dtype)
            for path, variable in variables.items()
        }

    def _rows(self, path: str, variable: keras.Variable) -> int:
        if path.endswith(_POSITIONS):
            return self.config.max_position_embeddings
        return variable.shape[0] - (len(self.pieces) if path.endswith(PIECE_TABLES) else 0)

    def grow(self, path: str, value: np.ndarray, rows: int) -> np.ndarray:
        """Returns the value of a variable with all its rows, given those of the checkpoint."""
        if path.endswith(_POSITIONS):
            return np.concatenate([value, continue_positions(value, rows - len(value))])
        if self.pieces and path.endswith(PIECE_TABLES):
            means = [value[list(ids)].mean(axis=0, dtype=np.float64) for ids in self.pieces]
            return np.concatenate([value, np.asarray(means, value.dtype)])
        return value
