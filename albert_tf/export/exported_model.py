"""An exported model in place of the one that it was made from: ids in, the same logits out."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.export.signatures import INPUTS

Batch = Mapping[str, tf.Tensor]


class ExportedModel:
    """Maps a batch to what a model of this package gives of it.

    Args:
        saved_model_dir: folder of a version, that takes ids or text.
        read_outputs: gives of the exported model's outputs what the model returned.

    Raises:
        InputError: it is no such folder.
    """

    def __init__(
        self, saved_model_dir: str, read_outputs: Callable[[Mapping[str, tf.Tensor]], Any]
    ):
        if not tf.saved_model.contains_saved_model(saved_model_dir):
            raise InputError(f"{saved_model_dir}: holds no SavedModel; expected a version's folder")
        try:
            self._loaded = tf.saved_model.load(saved_model_dir)
        except Exception as error:  # a damaged file can raise anything, e.g. IndexError
            raise InputError(
                f"{saved_model_dir}: cannot be loaded: {files.reason(error)}"
            ) from error
        ids_model = getattr(self._loaded, "ids_model", self._loaded)
        if not hasattr(ids_model, "predict"):
            raise InputError(f"{saved_model_dir}: was not exported by this package")
        self._predict = ids_model.predict
        self._read_outputs = read_outputs

    def __call__(self, batch: Batch, training: bool = False) -> Any:
        """Returns the logits, or what else the model gives.

        Args:
            batch: `input_ids`, `input_mask`, `segment_ids`, int32 (B, S), with choices (B, C, S), and
                more that is left out.
            training: False: what was exported does not train.
        """
        return self._read_outputs(self._predict(**{name: batch[name] for name in INPUTS}))
