"""Opens checkpoints of all formats."""

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import keras_hub
from albert_tf.checkpoints.hugging_face_reader import FolderReader, is_folder
from albert_tf.checkpoints.names import SHARED, BrightmartReader, OriginalReader
from albert_tf.checkpoints.tensor_files import (
    VARIABLES,
    CheckpointReader,
    TensorReader,
    find_checkpoint,
    open_tensors,
    stored_by_path,
    variables_by_path,
)
from albert_tf.errors import InputError

# What names begin with -> whose checkpoint it is.
_OF_TENSORFLOW = {
    f"{VARIABLES}/": CheckpointReader,
    SHARED: BrightmartReader,
    "bert/": OriginalReader,
}
# All that can be read, for messages.
_FORMATS = "; ".join(
    reader.description
    for reader in (*_OF_TENSORFLOW.values(), FolderReader, keras_hub.KerasHubReader)
)


def open_checkpoint(path: str) -> TensorReader:
    """Opens a checkpoint; its files and the names of its tensors tell its format."""
    if reader := keras_hub.open_keras_hub(path):
        return reader
    if path.endswith((keras_hub.KERAS_MODEL, keras_hub.KERAS_WEIGHTS)):
        return KerasReader(path)
    return FolderReader(path) if is_folder(path) else _open_tensorflow(find_checkpoint(path))


def _open_tensorflow(prefix: str) -> TensorReader:
    tensors = open_tensors(prefix)
    names = tensors.get_variable_to_shape_map()
    for start, reader_class in _OF_TENSORFLOW.items():
        if any(name.startswith(start) for name in names):
            return reader_class(prefix, tensors)
    raise InputError(
        f"{prefix}: holds '{min(names, default='nothing')}'; expected a checkpoint in one of "
        f"these formats: {_FORMATS}"
    )


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
        except keras_hub.DAMAGES as error:
            raise InputError(
                f"{path}: cannot be read as a model of Keras: {files.reason(error)}"
            ) from error
        self._variables = {
            stored_by_path(variable_path).names[0]: variable
            for variable_path, variable in variables_by_path(model.weights).items()
        }
        shapes = {name: tuple(variable.shape) for name, variable in self._variables.items()}
        super().__init__(path, shapes)

    def _get(self, name: str) -> np.ndarray:
        return np.asarray(self._variables[name])
