"""The checkpoint formats that can be read, told apart by what a checkpoint holds."""

import dataclasses
import functools
import zipfile
from collections.abc import Callable
from typing import Literal, get_args

import keras
import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import hugging_face, keras_hub, names
from albert_tf.checkpoints.hugging_face import ModelType, encoder_prefix
from albert_tf.checkpoints.hugging_face_reader import (
    FolderReader,
    check_config,
    holds_model,
    is_folder,
)
from albert_tf.checkpoints.tensor_files import (
    VARIABLES,
    CheckpointReader,
    Layout,
    TensorReader,
    find_checkpoint,
    plain_name,
    stored_by_path,
    variables_by_path,
)
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

FormatName = Literal["albert_tf", "tf1", "brightmart", "hugging_face", "keras_hub"]

# What Keras raises for damaged files.
_KERAS_DAMAGES = (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile)


@dataclasses.dataclass(frozen=True)
class CheckpointFormat:
    """A checkpoint format.

    Attributes:
        name: its name; several formats are Hugging Face's.
        description: its name in words.
        recognises: whether a checkpoint has this format.
        layout: maps a variable's path to how a checkpoint stores it.
        config_here: maps the config that comes with a checkpoint to ours of the same model.
        check: raises an `InputError` if a checkpoint cannot be a model of the config.
        is_no_weight: whether a name is the optimizer's, the step's or TensorFlow's own.
        encoder_prefixes: prefixes of the names of the encoder's weights.
        may_lack: whether a path belongs to a part of the encoder that a checkpoint may lack.
    """

    name: FormatName
    description: str
    recognises: Callable[[TensorReader], bool]
    layout: Layout
    config_here: Callable[[AlbertConfig], AlbertConfig] = lambda config: config
    check: Callable[[AlbertConfig, TensorReader], object] = lambda config, reader: None
    is_no_weight: Callable[[str], bool] = lambda name: False
    encoder_prefixes: tuple[str, ...] = ()
    may_lack: Callable[[str], bool] = lambda path: False


def _is_ours(reader: TensorReader) -> bool:
    return any(name.startswith(f"{VARIABLES}/") for name in reader.shapes)


def _is_no_weight_of_ours(name: str) -> bool:
    """Keras joins the path of a slot's variable with `_`, so an optimizer's paths have two parts."""
    return not name.startswith(f"{VARIABLES}/") or plain_name(name).count("/") == 1


def _hugging_face_format(model_type: ModelType, bare: bool) -> CheckpointFormat:
    """Returns the format of folders with one of their models, without or with heads."""
    of_model = {"albert": "", "bert": ", BERT"}[model_type]
    return CheckpointFormat(
        "hugging_face",
        f"Hugging Face, {model_type.capitalize()}Model" if bare else f"Hugging Face{of_model}",
        functools.partial(holds_model, model_type=model_type, bare=bare),
        hugging_face.layout_of(model_type, bare),
        check=check_config,
        encoder_prefixes=(
            ("embeddings.", "encoder.", "pooler.") if bare else (encoder_prefix(model_type),)
        ),
        may_lack=hugging_face.is_pooler,
    )


_FORMATS = (
    CheckpointFormat(
        "albert_tf", "albert_tf", _is_ours, stored_by_path, is_no_weight=_is_no_weight_of_ours
    ),
    CheckpointFormat(
        "brightmart",
        "TensorFlow 1, brightmart's names",
        names.is_brightmart,
        names.stored_as_brightmart,
        config_here=names.config_of_brightmart,
        check=lambda config, reader: names.check_brightmart_config(config),
        is_no_weight=names.is_no_weight,
        encoder_prefixes=("bert/",),
    ),
    CheckpointFormat(
        "tf1",
        "TensorFlow 1, the original's names",
        names.is_original,
        names.stored_as_original,
        check=lambda config, reader: names.in_groups(config, "the original's"),
        is_no_weight=names.is_no_weight,
        encoder_prefixes=("bert/",),
    ),
    *(
        _hugging_face_format(model_type, bare)
        for model_type in get_args(ModelType)
        for bare in (False, True)
    ),
    CheckpointFormat(
        "keras_hub",
        "KerasHub",
        lambda reader: isinstance(reader, keras_hub.KerasHubReader),
        keras_hub.stored_in_keras_hub,
        check=keras_hub.check_config,
        is_no_weight=keras_hub.is_no_weight,
        encoder_prefixes=(keras_hub.BACKBONE,),
    ),
)


def open_checkpoint(path: str) -> tuple[TensorReader, CheckpointFormat]:
    """Opens a checkpoint and recognises its format."""
    reader = _open(path)
    for one in _FORMATS:
        if one.recognises(reader):
            return reader, one
    raise InputError(
        f"{reader.prefix}: holds '{min(reader.shapes, default='nothing')}'; expected a checkpoint in "
        f"one of these formats: {'; '.join(one.description for one in _FORMATS)}"
    )


def _open(path: str) -> TensorReader:
    if reader := keras_hub.open_keras_hub(path):
        return reader
    if path.endswith((keras_hub.KERAS_MODEL, keras_hub.KERAS_WEIGHTS)):
        return KerasReader(path)
    return FolderReader(path) if is_folder(path) else CheckpointReader(find_checkpoint(path))


class KerasReader(TensorReader):
    """Reads a `.keras` file, under the names that our checkpoints give its variables.

    Keras needs the classes in the file: import `albert_tf.models` first.
    """

    def __init__(self, path: str):
        if not tf.io.gfile.exists(path):
            raise InputError(f"{path}: there is no such file")
        if path.endswith(keras_hub.KERAS_WEIGHTS):
            raise InputError(
                f"{path}: does not say which model its weights belong to; make that model, call "
                f"model.load_weights('{path}') and model.save('model{keras_hub.KERAS_MODEL}'), and "
                "name that file; of a KerasHub preset, name the folder"
            )
        try:
            model = keras.models.load_model(path, compile=False)
        except _KERAS_DAMAGES as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{path}: cannot be read as a model of Keras: {reason}") from error
        self._variables = {
            stored_by_path(variable_path).names[0]: variable
            for variable_path, variable in variables_by_path(model.weights).items()
        }
        shapes = {name: tuple(variable.shape) for name, variable in self._variables.items()}
        super().__init__(path, shapes)

    def _get(self, name: str) -> np.ndarray:
        return np.asarray(self._variables[name])
