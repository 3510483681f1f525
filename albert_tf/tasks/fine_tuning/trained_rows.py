"""The rows that a run was trained on, by which a run that resumes tells whether its rows are the same.

Other rows would make a model of both, and an evaluation on rows that it has seen. More rows are trained
on, too; those that were trained on stay so.
"""

import collections
import dataclasses
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError, warn
from albert_tf.model_folder import STATE_DIR, list_states

_FILE = "rows.npz"
# Members of examples that only say where a row stood.
_PLACES = ("guid", "id")


@dataclasses.dataclass(frozen=True)
class TrainedRows:
    """Hashes of rows, with the number of each."""

    trained: collections.Counter[int]
    held_out: collections.Counter[int]  # rows of the same file that were the dev set

    @classmethod
    def of(cls, train: Sequence[Any], held_out: Sequence[Any] = ()) -> Self:
        """Returns those of the examples of a run."""
        return cls(*(collections.Counter(map(_hash, rows)) for rows in (train, held_out)))

    @classmethod
    def read(cls, output_dir: str) -> Self | None:
        """Reads those of the run in an output folder; returns None if it has no state to resume."""
        folder = os.path.join(output_dir, STATE_DIR)
        path = os.path.join(folder, _FILE)
        if not (list_states(folder) and files.exists(path)):
            return None
        try:
            with np.load(io.BytesIO(files.read_bytes(path)), allow_pickle=False) as arrays:
                names = [field.name for field in dataclasses.fields(cls)]
                return cls(*(collections.Counter(arrays[name].tolist()) for name in names))
        except (ValueError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(f"{path}: damaged; expected it as it was written") from error

    def write(self, output_dir: str) -> None:
        """Writes them into an output folder, with those that are there."""
        before = self.read(output_dir)
        arrays: dict[str, Any] = {}
        for name, counts in vars(self).items():
            all_counts = counts | getattr(before, name) if before else counts
            arrays[name] = np.array(sorted(all_counts.elements()), np.uint64)
        content = io.BytesIO()
        np.savez(content, **arrays)
        files.write_bytes(os.path.join(output_dir, STATE_DIR, _FILE), content.getvalue())

    def keep(self, train: list[Any], dev: list[Any]) -> tuple[list[Any], list[Any]]:
        """Moves the rows of a dev set that were trained on to the training set, and counts them."""
        left = self.trained - collections.Counter(map(_hash, train))
        kept: list[Any] = []
        moved: list[Any] = []
        for example in dev:
            key = _hash(example)
            (moved if left[key] > 0 else kept).append(example)
            left[key] -= 1
        if moved:
            print(f"{len(moved)} rows stay in the training set, since the run was trained on them")
        return train + moved, kept

    def check(self, train: Sequence[Any], output_dir: str) -> None:
        """Compares the rows of a run that resumes with those that it was trained on.

        Raises:
            InputError: some are no longer there, and others are.
        """
        now = collections.Counter(map(_hash, train))
        gone = (self.trained - now).total()
        new = (now - (self.trained + self.held_out)).total()
        count = self.trained.total()
        if gone and new:
            raise InputError(
                f"--output_dir={output_dir}: holds a run that was trained on other rows: {gone} of its "
                f"{count} are not among these {len(train)}, {new} of which are new; expected the same "
                "rows, or more, or another --output_dir"
            )
        if gone:
            warn(
                f"--output_dir={output_dir}: the run was trained on {gone} rows that are no longer there"
            )


def _hash(example: Any) -> int:
    """Returns a hash of what a row says; 0 if it is an object of which that cannot be told."""
    members = getattr(example, "__dict__", example)
    if isinstance(members, dict):
        members = {name: value for name, value in members.items() if name not in _PLACES}
    try:
        content = json.dumps(members)
    except TypeError:
        return 0
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest())
