"""Checkpoints: variables by their Keras path, in TensorFlow's checkpoint format.

`tf.train.Checkpoint(model)` would follow attributes, and does not see layers that a Keras 3 model keeps
in a list; it would leave out the blocks of an encoder without a word. So the checkpoint is a dictionary
from each variable's path to the variable.
"""

import difflib
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError

Variables = Mapping[str, keras.Variable]

_PART = "variables"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


def variables_by_path(variables: Sequence[keras.Variable]) -> dict[str, keras.Variable]:
    """Returns the variables under the paths that checkpoints know them by.

    Raises:
        ValueError: two variables have one path.
    """
    by_path = {variable.path: variable for variable in variables}
    if len(by_path) != len(variables):
        raise ValueError("two variables have the same path; give the layers different names")
    return by_path


def load_checkpoint(model: keras.Model, path: str) -> None:
    """Reads all weights of a model, or of a part such as its encoder, from an albert_tf checkpoint.

    Variables of the checkpoint that the model lacks, such as other heads and the optimizer's, are left.

    Args:
        model: what to read; every weight has to be there.
        path: a checkpoint's prefix (`.../ckpt-1000`), or a folder, which stands for its latest one.

    Raises:
        InputError: there is no checkpoint, it is damaged, or a weight is missing or of another shape.
    """
    prefix = path
    if tf.io.gfile.isdir(path):
        prefix = tf.train.latest_checkpoint(path)
        if prefix is None:
            raise InputError(f"{path}: the folder holds no checkpoint")
    _assign(prefix, variables_by_path(model.weights))


class Checkpoints:
    """The checkpoints of a folder: the newest few.

    Args:
        directory: the folder.
        variables: what to save and restore, by path.
        max_to_keep: how many; the oldest are removed.
    """

    def __init__(self, directory: str, variables: Variables, max_to_keep: int):
        self._variables = variables
        values = {path: variable.value for path, variable in variables.items()}
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(**{_PART: values}), directory, max_to_keep, checkpoint_name="ckpt"
        )

    @property
    def latest(self) -> str | None:
        """Prefix of the newest checkpoint; None where there is none."""
        return self._manager.latest_checkpoint

    def save(self, step: int) -> str:
        """Writes the checkpoint of a step and returns its prefix.

        Raises:
            InputError: the file system refuses (full, read-only).
        """
        try:
            return self._manager.save(checkpoint_number=step)
        except tf.errors.OpError as error:
            raise InputError(
                f"{self._manager.directory}: a checkpoint cannot be written: {error.message}"
            ) from error

    def restore_latest(self) -> bool:
        """Reads the newest checkpoint; returns False where there is none.

        Raises:
            InputError: it is damaged, or does not hold these variables.
        """
        if self.latest is None:
            return False
        _assign(self.latest, self._variables)
        return True


def _assign(prefix: str, variables: Variables) -> None:
    """Sets each variable to the checkpoint's value; none is set unless all can be."""
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        _check_shapes(prefix, shapes, variables)
        values = {path: reader.get_tensor(_key(path)) for path in variables}
    except tf.errors.NotFoundError as error:
        raise InputError(f"{prefix}: there is no checkpoint of this name") from error
    except InputError:
        raise
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
        raise InputError(f"{prefix}: the checkpoint is damaged: {_first_line(error)}") from error
    for path, variable in variables.items():
        variable.assign(values[path])


def _check_shapes(prefix: str, shapes: Mapping[str, Sequence[int]], variables: Variables) -> None:
    if not any(key.startswith(_PART + "/") for key in shapes):
        raise InputError(
            f"{prefix}: not a checkpoint of albert_tf; it holds '{min(shapes, default='nothing')}'"
        )
    for path, variable in variables.items():
        shape = shapes.get(_key(path))
        if shape is None:
            near = difflib.get_close_matches(_key(path), shapes, n=1, cutoff=0.0)
            raise InputError(f"{prefix}: '{path}' is not in it; the closest is '{_path(near[0])}'")
        if tuple(shape) != tuple(variable.shape):
            raise InputError(
                f"{prefix}: '{path}' has shape {tuple(shape)}, the model's {tuple(variable.shape)}"
            )


def _key(path: str) -> str:
    """The name of a variable in the file; TensorFlow writes `/` inside a dictionary's key as `.S`."""
    return f"{_PART}/{path.replace('.', '..').replace('/', '.S')}{_SUFFIX}"


def _path(key: str) -> str:
    path = key.removeprefix(_PART + "/").removesuffix(_SUFFIX)
    return path.replace(".S", "/").replace("..", ".")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def write_best_metrics(directory: str, step: int, metrics: Mapping[str, float]) -> None:
    """Notes beside a best checkpoint what made it the best."""
    files.write_json(f"{directory}/metrics.json", {"step": step, **metrics})


def read_best_metrics(directory: str) -> dict[str, float] | None:
    """Returns what `write_best_metrics` noted; None where there is no best checkpoint yet."""
    path = f"{directory}/metrics.json"
    return files.read_json(path) if tf.io.gfile.exists(path) else None
