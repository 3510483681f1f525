"""Embeds texts with any encoder, and what a folder says about how."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.batches import evaluation_batches, restore_order
from albert_tf.data.fine_tuning.features import encode_examples
from albert_tf.data.fine_tuning.tsv import Example
from albert_tf.errors import ArgumentError, InputError
from albert_tf.export import EMBEDDING_FILE
from albert_tf.layers import Pooling
from albert_tf.tokenization import Tokenizer
from albert_tf.training import Evaluator

_BATCH_SIZE = 64

# Files of sentence-transformers' folders.
_MODULES_FILE = "modules.json"
_POOLING_FILE = "config.json"
_TRANSFORMER_FILE = "sentence_bert_config.json"
_POOLINGS: Mapping[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls_token": "cls",
    "cls": "cls",
}
_OLD_PREFIX = "pooling_mode_"


@dataclasses.dataclass(frozen=True)
class EmbeddingConfig:
    """How texts are embedded.

    Attributes:
        pooling: see `albert_tf.AlbertEmbedder`.
        normalize: whether embeddings have the length 1.
        max_seq_length: maximum number of tokens of a text, special tokens included; None for as many as
            the encoder has positions.
    """

    pooling: Pooling = "mean"
    normalize: bool = False
    max_seq_length: int | None = None

    @classmethod
    def from_folder(cls, folder: str) -> Self:
        """Reads what an embedder's folder says, ours or one of sentence-transformers.

        Returns:
            The config; the default for any other folder.

        Raises:
            InputError: a file is damaged, or says something that our embedder cannot do.
        """
        for name, read in ((EMBEDDING_FILE, _read_own), (_MODULES_FILE, _read_modules)):
            path = os.path.join(folder, name)
            if tf.io.gfile.exists(path):
                try:
                    return cls(**read(folder, path))
                except (AttributeError, KeyError, TypeError) as error:
                    raise InputError(
                        f"{path}: does not describe an embedder as expected: {error}"
                    ) from error
        return cls()

    def replace(self, **given: Any) -> Self:
        """Returns the config with those of the values that are not None."""
        return dataclasses.replace(
            self, **{name: value for name, value in given.items() if value is not None}
        )


def _read_own(folder: str, path: str) -> dict[str, Any]:
    return files.read_json(path)


def _read_modules(folder: str, path: str) -> dict[str, Any]:
    """Returns the values of a config from the modules of sentence-transformers."""
    values: dict[str, Any] = {}
    for module in files.read_json(path):
        name = str(module.get("type")).rpartition(".")[2]
        if name == "Pooling":
            values["pooling"] = _read_pooling(os.path.join(folder, module["path"], _POOLING_FILE))
        elif name == "Normalize":
            values["normalize"] = True
        elif name != "Transformer":
            raise InputError(
                f"{path}: has a module '{name}'; expected Transformer, Pooling and Normalize"
            )
    path = os.path.join(folder, _TRANSFORMER_FILE)
    if tf.io.gfile.exists(path):
        values["max_seq_length"] = files.read_json(path).get("max_seq_length")
    return values


def _read_pooling(path: str) -> Pooling:
    config = files.read_json(path)
    modes = config.get("pooling_mode")
    if modes is None:  # before version 6
        modes = [
            key.removeprefix(_OLD_PREFIX)
            for key, value in config.items()
            if key.startswith(_OLD_PREFIX) and value
        ]
    modes = [modes] if isinstance(modes, str) else modes
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise InputError(
            f"{path}: has the pooling {', '.join(modes) or 'of no mode'}; expected mean or cls"
        )
    return _POOLINGS[modes[0]]


class TextEmbedder:
    """Embeds texts.

    Args:
        evaluator: runs an `AlbertEmbedder`, or an exported one.
        tokenizer: the tokenizer that its encoder was trained with.
        max_seq_length: maximum number of tokens of a text, special tokens included; None for as many as
            the encoder has positions.

    Attributes:
        model: the embedder.
        max_seq_length: the maximum.

    Raises:
        ArgumentError: the encoder has fewer positions than `max_seq_length`.
    """

    def __init__(self, evaluator: Evaluator, tokenizer: Tokenizer, max_seq_length: int | None):
        self.model = evaluator.model
        positions = self.model.config.max_position_embeddings
        self.max_seq_length = max_seq_length or positions
        if self.max_seq_length > positions:
            raise ArgumentError(
                f"max_seq_length={max_seq_length}: expected at most {positions}, the model's number of "
                "positions"
            )
        self._evaluator = evaluator
        self._tokenizer = tokenizer

    def embed(self, texts: Sequence[str], report: Callable[[int], None]) -> np.ndarray:
        """Returns the embeddings of n texts, float32 (n, H), computed in batches of similar length.

        Args:
            texts: n > 0 texts; of those that are too long, the front.
            report: receives the number of texts of each batch that is done.
        """
        examples = [Example("", text) for text in texts]
        features = encode_examples(examples, (), self._tokenizer, self.max_seq_length)
        batches, order = evaluation_batches(features, _BATCH_SIZE)
        rows = []
        for embeddings in self._evaluator.predict_batches(batches):
            rows.append(embeddings)
            report(len(embeddings))
        return restore_order(np.concatenate(rows), order)
