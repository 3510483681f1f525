"""Tables of a model with more rows than its checkpoint has: added pieces, and more positions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.checkpoints.tensors import PIECE_TABLES
from albert_tf.config import AlbertConfig

_POSITIONS = "/position_embeddings"


class _Described(NamedTuple):
    """What a checkpoint is asked for in place of a variable: its shape and its type there."""

    shape: tuple[int, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class Growth:
    """How the rows of a model that a checkpoint lacks are made of those that it has.

    The row of an added piece begins as the mean of the rows of the pieces that its text had. Positions
    are continued: those after the last have the rows from the first on, again and again, as in Longformer
    (Beltagy et al. 2020, https://arxiv.org/abs/2004.05150, section 5).

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
            return value[np.arange(rows) % len(value)]
        if self.pieces and path.endswith(PIECE_TABLES):
            means = [value[list(ids)].mean(axis=0, dtype=np.float64) for ids in self.pieces]
            return np.concatenate([value, np.asarray(means, value.dtype)])
        return value
