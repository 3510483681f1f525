"""Checkpoints of a run: variables by their Keras path, in TensorFlow's checkpoint files.

`tf.train.Checkpoint(model)` follows attributes and does not see layers that a Keras 3 model keeps in a
list. It would silently leave out the blocks of an encoder. So a checkpoint is a dictionary from each
variable's path to the variable.

Files are written in the background, from copies that share memory with the variables until these change.
TensorFlow's `experimental_enable_async_checkpoint` is not used: it swallows the error of the last write.
"""

import concurrent.futures
import functools
import os
from collections.abc import Mapping

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.tensor_files import (
    CHECKPOINT_NAME,
    VARIABLES,
    CheckpointReader,
    UnreadableCheckpointError,
    Variables,
    assign,
    has_note,
    latest_checkpoint,
    list_checkpoints,
    open_tensors,
    stored_by_path,
    tensors_of,
    variables_by_path,
    write_checkpoint,
    write_note,
)
from albert_tf.errors import warn
from albert_tf.sources import refuse_brackets

_METRICS = ".json"

# The files that TensorFlow renames when they are complete.
_TEMPORARY = ("checkpoint.tmp*", f"{CHECKPOINT_NAME}-*_temp")


def remove_temporary_files(directory: str) -> None:
    """Removes the files that a killed process was writing to a folder of checkpoints."""
    for pattern in _TEMPORARY:
        for path in files.matches(directory, pattern):
            files.remove(path)


def remove_checkpoints(directory: str) -> None:
    """Removes all checkpoints of a folder, and their metrics."""
    for pattern in ("checkpoint", f"{CHECKPOINT_NAME}-*"):
        for path in files.matches(directory, pattern):
            files.remove(path)


class Checkpoints:
    """The newest `max_to_keep` checkpoints of a folder, of variables by path."""

    def __init__(self, directory: str, variables: Variables, max_to_keep: int):
        refuse_brackets(directory)
        self._directory = directory
        self._variables = variables
        self._max_to_keep = max_to_keep
        self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._writing: concurrent.futures.Future[None] | None = None

    @functools.cached_property
    def _copies(self) -> dict[str, tf.Variable]:
        with tf.device("CPU:0"):
            return {
                path: tf.Variable(variable.value, trainable=False)
                for path, variable in self._variables.items()
            }

    @functools.cached_property
    def _manager(self) -> tf.train.CheckpointManager:
        # A damaged `checkpoint` file would be an error here; a missing one means an empty folder.
        if not has_note(self._directory) and (prefixes := list_checkpoints(self._directory)):
            write_note(self._directory, prefixes[-self._max_to_keep :])
        return tf.train.CheckpointManager(
            tf.train.Checkpoint(**{VARIABLES: self._copies}),
            self._directory,
            self._max_to_keep,
            checkpoint_name=CHECKPOINT_NAME,
        )

    def save(self, step: int) -> None:
        """Writes the checkpoint of a step."""
        self.start_saving(step)
        self.wait()

    def start_saving(self, step: int) -> None:
        """Starts to write the checkpoint of a step in the background; waits for the previous one."""
        self.wait()
        for path, variable in self._variables.items():
            self._copies[path].assign(variable.value)
        self._writing = self._writer.submit(self._write, step)

    def wait(self) -> None:
        """Waits for the end of `start_saving`."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def check(self) -> None:
        """Raises the error of a finished `start_saving`, without waiting for an unfinished one."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def _write(self, step: int) -> None:
        with files.explain_refusal(f"{self._directory}/{CHECKPOINT_NAME}-{step}"):
            # TensorFlow counts the saves of a process, which would differ after a restart.
            self._manager.checkpoint.save_counter.assign(step - 1)
            self._manager.save(checkpoint_number=step)

    def restore_latest(self) -> bool:
        """Restores the newest undamaged checkpoint, with a warning for each damaged one.

        TensorFlow's files have checksums, so reading them shows damage. Returns whether there is one.
        """
        prefixes = list_checkpoints(self._directory)
        if prefixes and not has_note(self._directory):
            warn(
                f"{self._directory}/checkpoint: missing or damaged; using the newest of the "
                f"{len(prefixes)} checkpoints in the folder"
            )
        for prefix in reversed(prefixes):
            try:
                reader = CheckpointReader(prefix, open_tensors(prefix))
                values = reader.read_all(self._variables)
            except UnreadableCheckpointError as error:
                if prefix == prefixes[0]:
                    raise
                warn(f"{error}; trying the previous one")
            else:
                assign(self._variables, values)
                return True
        return False


def save_checkpoint(model: keras.Model, prefix: str) -> None:
    """Writes a model's weights as a single checkpoint, whose file names begin with `prefix`."""
    write_checkpoint(prefix, tensors_of(variables_by_path(model.weights), stored_by_path))


class BestCheckpoint:
    """The weights with the best evaluation, and their metrics, in a folder of their own.

    TensorFlow's `checkpoint` file is written last. Until then the previous best is valid, so a run loses
    nothing if it is killed in between.
    """

    def __init__(self, directory: str):
        self._directory = directory

    @property
    def metrics(self) -> dict[str, float] | None:
        """Its metrics; None if there is no checkpoint yet."""
        prefix = latest_checkpoint(self._directory)
        return files.read_json(f"{prefix}{_METRICS}") if prefix else None

    def replace(self, model: keras.Model, step: int, metrics: Mapping[str, float]) -> None:
        """Replaces the checkpoint by the weights of a step."""
        path = f"{self._directory}/{CHECKPOINT_NAME}-{step}{_METRICS}"
        files.make_directory(self._directory)
        files.write_json(path, {"step": step, **metrics})
        Checkpoints(self._directory, variables_by_path(model.weights), max_to_keep=1).save(step)
        for other in files.matches(self._directory, f"*{_METRICS}"):
            if os.path.basename(other) != os.path.basename(path):
                tf.io.gfile.remove(other)
