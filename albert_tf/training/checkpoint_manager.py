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
from albert_tf.checkpoints.folder import (
    CHECKPOINT_NAME,
    has_note,
    latest_checkpoint,
    list_checkpoints,
    step_of,
    write_note,
)
from albert_tf.checkpoints.tensor_files import (
    VARIABLES,
    CheckpointReader,
    UnreadableCheckpointError,
    Variables,
    assign,
    stored_by_path,
    tensors_of,
    variables_by_path,
    write_checkpoint,
)
from albert_tf.errors import InputError

_METRICS = ".json"


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
        self._writing: concurrent.futures.Future[None] | None = None

    @functools.cached_property
    def _copies(self) -> dict[str, tf.Variable]:
        with tf.device("CPU:0"):
            return {
                path: tf.Variable(variable.value, trainable=False)
                for path, variable in self._variables.items()
            }

    @functools.cached_property
    def _checkpoint(self) -> tf.train.Checkpoint:
        return tf.train.Checkpoint(**{VARIABLES: self._copies})

    @property
    def latest(self) -> str | None:
        """Prefix of the newest checkpoint; None where there is none."""
        return latest_checkpoint(self._directory)

    def save(self, step: int) -> str:
        """Writes the checkpoint of a step and returns its prefix.

        Raises:
            StoppedError: the file system refuses (full, read-only).
        """
        self.start_saving(step)
        self.wait()
        return self.latest

    def start_saving(self, step: int) -> None:
        """Writes the checkpoint of a step while the caller goes on; waits for the one before.

        Raises:
            StoppedError: the file system refused the one before.
        """
        self.wait()
        for path, variable in self._variables.items():
            self._copies[path].assign(variable.value)
        self._writing = self._writer.submit(self._write, step)

    def wait(self) -> None:
        """Returns when what `start_saving` began is there.

        Raises:
            StoppedError: the file system refuses (full, read-only).
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def check(self) -> None:
        """Does what `wait` does where there is nothing to wait for.

        Raises:
            StoppedError: the file system has refused.
        """
        if self._writing is not None and self._writing.done():
            self.wait()

    def _write(self, step: int) -> None:
        with files.explain_refusal(f"{self._directory}/{CHECKPOINT_NAME}-{step}"):
            # The manager would fail on a damaged note, and take a missing one for an empty folder.
            if not has_note(self._directory) and (prefixes := list_checkpoints(self._directory)):
                write_note(self._directory, prefixes[-self._max_to_keep :])
            # TensorFlow counts the saves of a process; a run that was killed would count others.
            self._checkpoint.save_counter.assign(step - 1)
            # It knows the note alone, which changes where the run goes back; so it is made anew.
            tf.train.CheckpointManager(
                self._checkpoint,
                self._directory,
                self._max_to_keep,
                keep_checkpoint_every_n_hours=self._keep_every_n_hours,
                checkpoint_name=CHECKPOINT_NAME,
            ).save(checkpoint_number=step)

    def restore_latest(self) -> bool:
        """Reads the newest checkpoint that is whole, with a warning for each that is not.

        TensorFlow's files have checksums, so damage shows where they are read.

        Returns:
            whether there is a checkpoint.

        Raises:
            InputError: all are damaged, or one does not hold these variables.
        """
        prefixes = list_checkpoints(self._directory)
        if prefixes and not has_note(self._directory):
            print(
                f"warning: {self._directory}/checkpoint: missing or damaged; the newest of the "
                f"{len(prefixes)} checkpoints that are there is used",
                file=sys.stderr,
            )
        return self._restore(prefixes) is not None

    def go_back(self, before: int) -> str:
        """Reads the newest checkpoint that is whole of a step before the one given.

        Returns:
            its prefix.

        Raises:
            InputError: there is none that is whole.
        """
        older = [p for p in list_checkpoints(self._directory) if step_of(p) < before]
        prefix = self._restore(older)
        if prefix is None:
            raise InputError(f"{self._directory}: no checkpoint is left to go back to")
        return prefix

    def remove_after(self, prefix: str) -> None:
        """Removes the checkpoints that are newer than one."""
        prefixes = list_checkpoints(self._directory)
        kept = prefixes[: prefixes.index(prefix) + 1]
        write_note(self._directory, kept)
        for newer in prefixes[len(kept) :]:
            for path in tf.io.gfile.glob(f"{newer}.*"):
                tf.io.gfile.remove(path)

    def _restore(self, prefixes: Sequence[str]) -> str | None:
        """Reads the last of some checkpoints that is whole, and returns its prefix."""
        damage = None
        for prefix in reversed(prefixes):
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
        return latest_checkpoint(self._directory)

    @property
    def metrics(self) -> dict[str, float] | None:
        """Its metrics; None where there is none yet."""
        return files.read_json(f"{self.prefix}{_METRICS}") if self.prefix else None

    def replace(self, model: keras.Model, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps the weights of a step in place of those before.

        Raises:
            StoppedError: the file system refuses (full, read-only).
        """
        path = f"{self._directory}/{CHECKPOINT_NAME}-{step}{_METRICS}"
        files.make_directory(self._directory, "output_dir")
        files.write_json(path, {"step": step, **metrics})
        Checkpoints(self._directory, variables_by_path(model.weights), max_to_keep=1).save(step)
        for other in tf.io.gfile.glob(f"{self._directory}/*{_METRICS}"):
            if os.path.basename(other) != os.path.basename(path):
                tf.io.gfile.remove(other)
