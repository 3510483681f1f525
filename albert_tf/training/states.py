"""The states of a run: all variables that a resumed run needs, by path, each state in one file.

The state of a run that was stopped between two reports also has the means since the last one, under names
of their own.

Files are written in the background, from copies that share memory with the variables until these change.
"""

import concurrent.futures
import types
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.safetensors_files import read_tensors, write_tensors
from albert_tf.checkpoints.tensors import StateReader, Variables, assign
from albert_tf.errors import InputError, warn
from albert_tf.model_folder import list_states

# Before the names of what is no variable; with one slash, so that no reader takes them for weights.
_INTERVAL = "interval/"


class States:
    """The newest `max_to_keep` states of a run in a folder."""

    def __init__(self, folder: str, variables: Variables, max_to_keep: int):
        self._folder = folder
        self._variables = variables
        self._max_to_keep = max_to_keep
        self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._writing: concurrent.futures.Future[None] | None = None

    def start_saving(
        self, step: int, interval: Mapping[str, np.ndarray] = types.MappingProxyType({})
    ) -> None:
        """Starts to write the state after a step in the background; waits for the previous one.

        `interval` are arrays of an unfinished `Interval`, which `read_interval` returns.
        """
        self.wait()
        with tf.device("CPU:0"):
            copies = {
                path: tf.identity(variable.value) for path, variable in self._variables.items()
            }
        more = {f"{_INTERVAL}{name}": array for name, array in interval.items()}
        self._writing = self._writer.submit(self._write, step, {**copies, **more})

    def wait(self) -> None:
        """Waits for the end of `start_saving`."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def check(self) -> None:
        """Raises the error of a finished `start_saving`, without waiting for an unfinished one."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def _write(self, step: int, copies: dict[str, tf.Tensor | np.ndarray]) -> None:
        path = self._path(step)
        write_tensors(path, {name: np.asarray(copy) for name, copy in copies.items()})
        with files.explain_refusal(path):
            for older in list_states(self._folder)[: -self._max_to_keep]:
                files.remove(older)

    def _path(self, step: int) -> str:
        return f"{self._folder}/step-{step}.safetensors"

    def read_interval(self, step: int) -> dict[str, np.ndarray]:
        """Returns the arrays of the interval in the state after a step; none without such a state."""
        path = self._path(step)
        arrays = read_tensors(path) if files.exists(path) else {}
        return {
            name.removeprefix(_INTERVAL): array
            for name, array in arrays.items()
            if name.startswith(_INTERVAL)
        }

    def restore_latest(self) -> bool:
        """Restores the newest readable state, with a warning for each damaged one.

        Returns whether there is one.
        """
        paths = list_states(self._folder)
        for path in reversed(paths):
            try:
                reader = StateReader(path)
            except InputError as error:
                if path == paths[0]:
                    raise
                warn(f"{error}; trying the previous one")
            else:
                assign(self._variables, reader.read_all(self._variables))
                return True
        return False
