"""Lists the checkpoints of a folder.

TensorFlow notes them in a file named `checkpoint`. A power loss may leave it empty, or somebody may copy
a folder without it. If the note is missing or damaged, the file names are used instead.
"""

import os
import re
from collections.abc import Sequence

import tensorflow as tf

CHECKPOINT_NAME = "ckpt"

# Suffix of the file that makes a checkpoint complete.
INDEX = ".index"

_STEP = re.compile(rf"{CHECKPOINT_NAME}-(\d+)$")


def has_note(directory: str) -> bool:
    """Returns whether a folder has a readable note of its checkpoints."""
    return _read_note(directory) is not None


def list_checkpoints(directory: str) -> list[str]:
    """Returns the prefixes of a folder's checkpoints, the oldest first."""
    note = _read_note(directory)
    if note is not None:
        # A note of TensorFlow 1 may name the newest only.
        return list(dict.fromkeys([*note.all_model_checkpoint_paths, note.model_checkpoint_path]))
    indices = tf.io.gfile.glob(os.path.join(directory, f"{CHECKPOINT_NAME}-*{INDEX}"))
    prefixes = [path.removesuffix(INDEX) for path in indices]
    return sorted(filter(_STEP.search, prefixes), key=lambda prefix: int(_STEP.search(prefix)[1]))


def latest_checkpoint(directory: str) -> str | None:
    """Returns the prefix of a folder's newest checkpoint; None if there is none."""
    prefixes = reversed(list_checkpoints(directory))
    return next((prefix for prefix in prefixes if tf.io.gfile.exists(prefix + INDEX)), None)


def write_note(directory: str, prefixes: Sequence[str]) -> None:
    """Writes the note of a folder that has none.

    Args:
        directory: the folder.
        prefixes: of its checkpoints, the oldest first.
    """
    times = [tf.io.gfile.stat(prefix + INDEX).mtime_nsec / 1e9 for prefix in prefixes]
    tf.compat.v1.train.update_checkpoint_state(
        directory,
        prefixes[-1],
        list(prefixes),
        all_model_checkpoint_timestamps=times,
        # TensorFlow never removes older ones.
        last_preserved_timestamp=times[0] - 1.0,
    )


def _read_note(directory: str):
    """Returns TensorFlow's `CheckpointState`; None if it is missing or damaged."""
    try:
        return tf.train.get_checkpoint_state(directory)
    except ValueError:  # empty, or not text
        return None
