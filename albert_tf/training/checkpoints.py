"""Checkpoints of a run: variables by their Keras path, in TensorFlow's checkpoint files.

`tf.train.Checkpoint(model)` would follow attributes, and does not see layers that a Keras 3 model keeps
in a list; it would leave out the blocks of an encoder without a word. So the checkpoint is a dictionary
from each variable's path to the variable.

Files are written while the training goes on, from copies that share memory with the variables until these
change. `experimental_enable_async_checkpoint` of TensorFlow keeps the error of the last write to itself.
"""

import concurrent.futures
import functools
import os
import sys
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import (
    VARIABLES,
    CheckpointReader,
    UnreadableCheckpointError,
    Variables,
    assign,
    stored_by_path,
    tensors_of,
    write_checkpoint,
)

_METRICS = ".json"


def variables_by_path(variables: Sequence[keras.Variable]) -> dict[str, keras.Variable]:
    """Returns the variables under the paths that checkpoints know them by.

    Raises:
        ValueError: two variables have one path.
    """
    by_path = {variable.path: variable for variable in variables}
    if len(by_path) != len(variables):
        raise ValueError("two variables have the same path; give the layers different names")
    return by_path


class Checkpoints:
    """The checkpoints of a folder: the newest few.

    Args:
        directory: the folder.
        variables: what to save and restore, by path.
        max_to_keep: how many; the oldest are removed.
        keep_every_n_hours: of the oldest, one stays for each time as long as this; None keeps none.
    """

    def __init__(
        self,
        directory: str,
        variables: Variables,
        max_to_keep: int,
        keep_every_n_hours: float | None = None,
    ):
        self._directory = directory
        self._variables = variables
        self._max_to_keep = max_to_keep
        self._keep_every_n_hours = keep_every_n_hours
        self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._writing: concurrent.futures.Future[str] | None = None

    @functools.cached_property
    def _copies(self) -> dict[str, tf.Variable]:
        with tf.device("CPU:0"):
            return {
                path: tf.Variable(variable.value, trainable=False)
                for path, variable in self._variables.items()
            }

    @functools.cached_property
    def _manager(self) -> tf.train.CheckpointManager:
        return tf.train.CheckpointManager(
            tf.train.Checkpoint(**{VARIABLES: self._copies}),
            self._directory,
            self._max_to_keep,
            keep_checkpoint_every_n_hours=self._keep_every_n_hours,
            checkpoint_name="ckpt",
        )

    @property
    def latest(self) -> str | None:
        """Prefix of the newest checkpoint that is whole; None where there is none."""
        return tf.train.latest_checkpoint(self._directory)

    def save(self, step: int) -> str:
        """Writes the checkpoint of a step and returns its prefix.

        Raises:
            InputError: the file system refuses (full, read-only).
        """
        self.start_saving(step)
        self.wait()
        return self.latest

    def start_saving(self, step: int) -> None:
        """Writes the checkpoint of a step while the caller goes on; waits for the one before.

        Raises:
            InputError: the file system refused the one before.
        """
        self.wait()
        for path, variable in self._variables.items():
            self._copies[path].assign(variable.value)
        self._writing = self._writer.submit(self._manager.save, checkpoint_number=step)

    def wait(self) -> None:
        """Returns when what `start_saving` began is there.

        Raises:
            InputError: the file system refuses (full, read-only).
        """
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            writing.result()
        except tf.errors.OpError as error:
            raise InputError(
                f"{self._directory}: a checkpoint cannot be written: {files.reason(error)}"
            ) from error

    def restore_latest(self) -> bool:
        """Reads the newest checkpoint that is whole, with a warning for each that is not.

        TensorFlow's files have checksums, so damage shows where they are read.

        Returns:
            whether there is a checkpoint.

        Raises:
            InputError: all are damaged, or one does not hold these variables.
        """
        return self._restore(1) is not None

    def go_back(self, count: int) -> str:
        """Reads the `count`-th newest checkpoint, or the first before it that is whole.

        Returns:
            its prefix.

        Raises:
            InputError: there is none that is whole.
        """
        prefix = self._restore(count)
        if prefix is None:
            raise InputError(f"{self._directory}: no checkpoint is left to go back to")
        return prefix

    def remove_after(self, prefix: str) -> None:
        """Removes the checkpoints that are newer than one."""
        prefixes = self._prefixes()
        kept = prefixes[: prefixes.index(prefix) + 1]
        state = tf.train.get_checkpoint_state(self._directory)
        tf.compat.v1.train.update_checkpoint_state(
            self._directory,
            prefix,
            kept,
            all_model_checkpoint_timestamps=state.all_model_checkpoint_timestamps[: len(kept)],
            last_preserved_timestamp=state.last_preserved_timestamp,
        )
        for newer in prefixes[len(kept) :]:
            for path in tf.io.gfile.glob(f"{newer}.*"):
                tf.io.gfile.remove(path)
        # It knows those that were removed; the next one reads what is there.
        self.__dict__.pop("_manager", None)

    def _prefixes(self) -> list[str]:
        """Returns what there is now, also where another worker writes; the oldest first."""
        state = tf.train.get_checkpoint_state(self._directory)
        return list(state.all_model_checkpoint_paths) if state else []

    def _restore(self, count: int) -> str | None:
        """Reads the `count`-th newest checkpoint, or the first before it that is whole."""
        damage = None
        for prefix in reversed(self._prefixes()[: 1 - count or None]):
            try:
                values = CheckpointReader(prefix).read_all(self._variables, stored_by_path)
            except UnreadableCheckpointError as error:
                damage = error
                print(f"warning: {error}; trying the one before", file=sys.stderr)
                continue
            assign(self._variables, values)
            return prefix
        if damage is not None:
            raise damage
        return None


def save_checkpoint(model: keras.Model, prefix: str) -> None:
    """Writes a model's weights as one checkpoint, apart from those of a run.

    Args:
        model: whose weights.
        prefix: what the names of the files begin with.

    Raises:
        InputError: the file system refuses (full, read-only).
    """
    write_checkpoint(prefix, tensors_of(variables_by_path(model.weights), stored_by_path))


class BestCheckpoint:
    """The weights that did best in evaluation, with the metrics that say so, in a folder of their own.

    TensorFlow's note of the latest checkpoint is written last. Until then the folder holds the best
    before, so a run that is killed in between has lost nothing.

    Args:
        directory: the folder.
    """

    def __init__(self, directory: str):
        self._directory = directory

    @property
    def prefix(self) -> str | None:
        """Prefix of the checkpoint; None where there is none yet."""
        return tf.train.latest_checkpoint(self._directory)

    @property
    def metrics(self) -> dict[str, float] | None:
        """Its metrics; None where there is none yet."""
        return files.read_json(f"{self.prefix}{_METRICS}") if self.prefix else None

    def replace(self, model: keras.Model, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps the weights of a step in place of those before.

        Raises:
            InputError: the file system refuses (full, read-only).
        """
        path = f"{self._directory}/ckpt-{step}{_METRICS}"
        files.make_directory(self._directory, "output_dir")
        files.write_json(path, {"step": step, **metrics})
        Checkpoints(self._directory, variables_by_path(model.weights), max_to_keep=1).save(step)
        for other in tf.io.gfile.glob(f"{self._directory}/*{_METRICS}"):
            if os.path.basename(other) != os.path.basename(path):
                tf.io.gfile.remove(other)
