"""`from_preset` of the models: a published size, or a folder with weights."""

import os
import warnings
from typing import Any, TypeVar

import keras
import tensorflow as tf

from albert_tf.checkpoints.folder import best_checkpoint
from albert_tf.config import CONFIG_FILE, PRESETS, AlbertConfig
from albert_tf.conversion.checkpoint_loading import load_checkpoint, read_config, stored_shape
from albert_tf.conversion.hugging_face_reader import CONFIG_FILE as HUGGING_FACE_CONFIG_FILE
from albert_tf.errors import ArgumentError, name_place
from albert_tf.models import AlbertClassifier, AlbertTokenClassifier

# Bias of the head of models that have a number of classes.
_BIASES = {
    AlbertClassifier: "albert_classifier/head/dense/bias",
    AlbertTokenClassifier: "albert_token_classifier/token_head/dense/bias",
}

_Model = TypeVar("_Model", bound=keras.Model)


def model_from_preset(model_class: type[_Model], preset: str, **kwargs: Any) -> _Model:
    """Makes a model of a published size, or of a folder with its weights.

    See `albert_tf.models.base_model.BaseModel.from_preset`.
    """
    preset = os.fspath(preset)
    place = f"{model_class.__name__}.from_preset({preset!r})"
    if preset in PRESETS:
        model = model_class.from_encoder_config(AlbertConfig.from_preset(preset), **kwargs)
        warnings.warn(
            f"{place}: a size without weights; all of them are initialised randomly", stacklevel=3
        )
        return model
    with name_place(place):
        config = read_config(_find_config(preset))
        checkpoint = best_checkpoint(preset)
        for with_classes, bias in _BIASES.items():
            if issubclass(model_class, with_classes) and "num_classes" not in kwargs:
                kwargs["num_classes"] = _count_classes(checkpoint, bias)
        model = model_class.from_encoder_config(config, **kwargs)
        report = load_checkpoint(model, checkpoint)
    if report.missing:
        warnings.warn(
            f"{place}: has no {', '.join(report.missing)}; initialised randomly", stacklevel=3
        )
    return model


def _count_classes(checkpoint: str, bias: str) -> int:
    shape = stored_shape(checkpoint, bias)
    if shape is None:
        raise ArgumentError("num_classes: expected a number, as the folder holds no classifier")
    return shape[0]


def _find_config(folder: str) -> str:
    for name in (CONFIG_FILE, HUGGING_FACE_CONFIG_FILE):
        path = os.path.join(folder, name)
        if tf.io.gfile.exists(path):
            return path
    raise ArgumentError(
        f"expected a size ({', '.join(PRESETS)}) or a folder with {CONFIG_FILE} or "
        f"{HUGGING_FACE_CONFIG_FILE}"
    )
