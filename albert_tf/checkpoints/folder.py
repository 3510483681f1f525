"""Which checkpoints a folder holds.

TensorFlow keeps a note of them in a file named `checkpoint`. A power loss may leave it empty, or somebody
copies a folder without it; the checkpoints are there all the same. So where the note is missing or
damaged, the names of the files tell.
"""

import os
import re
from collections.abc import Sequence

import tensorflow as tf

CHECKPOINT_NAME = "ckpt"

# What the name of the file ends in without which there is no checkpoint.
INDEX = ".index"

_STEP = re.compile(rf"{CHECKPOINT_NAME}-(\d+)$")


def step_of(prefix: str) -> int:
    """Returns the step that the prefix of one of our checkpoints ends in."""
    return int(_STEP.search(prefix)[1])


def has_note(directory: str) -> bool:
    """Returns whether the note of a folder's checkpoints is there and whole."""
    return _read_note(directory) is not None


def list_checkpoints(directory: str) -> list[str]:
    """Returns the prefixes of a folder's checkpoints, the oldest first."""
    note = _read_note(directory)
    if note is not None:
        # A note of TensorFlow 1 may name the newest alone.
        return list(dict.fromkeys([*note.all_model_checkpoint_paths, note.model_checkpoint_path]))
    indices = tf.io.gfile.glob(os.path.join(directory, f"{CHECKPOINT_NAME}-*{INDEX}"))
    prefixes = [path.removesuffix(INDEX) for path in indices]
    return sorted(filter(_STEP.search, prefixes), key=step_of)


def latest_checkpoint(directory: str) -> str | None:
    """Returns the prefix of a folder's newest checkpoint; None where there is none."""
    prefixes = reversed(list_checkpoints(directory))
    return next((prefix for prefix in prefixes if tf.io.gfile.exists(prefix + INDEX)), None)


def write_note(directory: str, prefixes: Sequence[str]) -> None:
    """Notes which checkpoints there are.

    Args:
        directory: their folder.
        prefixes: theirs, the oldest first; where there is a note, what it begins with.
    """
    note = _read_note(directory)
    if note is None:
        times = [tf.io.gfile.stat(prefix + INDEX).mtime_nsec / 1e9 for prefix in prefixes]
        # TensorFlow never removes what is older.
        last_preserved = times[0] - 1.0
    else:
        times = note.all_model_checkpoint_timestamps[: len(prefixes)]
        last_preserved = note.last_preserved_timestamp
    tf.compat.v1.train.update_checkpoint_state(
        directory,
        prefixes[-1],
        list(prefixes),
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=last_preserved,
    )


def _read_note(directory: str):
    """Returns TensorFlow's `CheckpointState`; None where there is none, or it is damaged."""
    try:
        return tf.train.get_checkpoint_state(directory)
    # It is empty, or no text.
    except ValueError:
        return None
