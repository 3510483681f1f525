"""Runs an exported model in place of the model that it was made of."""

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.saved_models.ids_model import INPUTS
from albert_tf.export.version_folders import assets_folder
from albert_tf.tokenization.in_graph import import_tensorflow_text

Batch = Mapping[str, tf.Tensor]


class ExportedModel:
    """Maps a batch to what the original model returns.

    Args:
        saved_model_dir: folder of a version, of the ids or of the text model.
        read_outputs: maps the exported model's outputs to the original model's.

    Raises:
        InputError: the folder holds no such model.
    """

    def __init__(
        self, saved_model_dir: str, read_outputs: Callable[[Mapping[str, tf.Tensor]], Any]
    ):
        if not tf.saved_model.contains_saved_model(saved_model_dir):
            raise InputError(f"{saved_model_dir}: holds no SavedModel; expected a version's folder")
        self._config_file = os.path.join(assets_folder(saved_model_dir), CONFIG_FILE)
        _import_operators(saved_model_dir)
        try:
            self._loaded = tf.saved_model.load(saved_model_dir)
        except Exception as error:  # a damaged file can raise anything, e.g. IndexError
            raise InputError(
                f"{saved_model_dir}: cannot be loaded: {files.reason(error)}"
            ) from error
        # Only models of ids have `predict`.
        self._predict = getattr(self._loaded, "predict", None) or getattr(
            self._loaded, "predict_unchecked", None
        )
        if self._predict is None:
            raise InputError(f"{saved_model_dir}: is not a model that this package exported")
        self._read_outputs = read_outputs

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """The encoder's config."""
        return AlbertConfig.from_json_file(self._config_file)

    def __call__(self, batch: Batch, training: bool = False) -> Any:
        """Returns the model's outputs, such as logits.

        Args:
            batch: `input_ids`, `input_mask`, `segment_ids`, int32 (B, S), or (B, C, S) with choices;
                other features are ignored.
            training: ignored; an exported model does not train.
        """
        return self._read_outputs(self._predict(**{name: batch[name] for name in INPUTS}))


def _import_operators(saved_model_dir: str) -> None:
    """Registers the operators of TensorFlow Text if the model is a text model, which alone needs them."""
    graph = files.read_bytes(os.path.join(saved_model_dir, "saved_model.pb"))
    if b"graph_tokenizer" in graph:
        import_tensorflow_text()
