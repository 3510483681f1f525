"""Files of Keras: a model that `model.save("model.keras")` wrote, read by the paths of its variables."""

import zipfile

import keras
import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.tensor_files import TensorReader, stored_by_path, variables_by_path
from albert_tf.errors import InputError

_MODEL_END, _WEIGHTS_END = ".keras", ".h5"
# Keras raises each of these for some damage.
_DAMAGES = (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile)


def is_keras_file(path: str) -> bool:
    """Returns whether a name is that of a file of Keras."""
    return path.endswith((_MODEL_END, _WEIGHTS_END))


class KerasReader(TensorReader):
    """A `.keras` file to read from, with the names that our checkpoints give to its variables.

    Args:
        path: the file.

    Raises:
        InputError: there is none, it is damaged, or it holds weights without their model.
    """

    def __init__(self, path: str):
        if not tf.io.gfile.exists(path):
            raise InputError(f"{path}: there is no such file")
        if path.endswith(_WEIGHTS_END):
            raise InputError(
                f"{path}: does not say which model its weights are of; make that model, call "
                f"model.load_weights('{path}') and model.save('model{_MODEL_END}'), and name that file"
            )
        try:
            model = keras.models.load_model(path, compile=False)
        except _DAMAGES as error:
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
