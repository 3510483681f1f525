"""The paths that the flags of a command name: whether they can be read, or are free to write."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.lazy import LazyModule
from albert_tf.options import to_json_dict
from albert_tf.sources import is_download

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = LazyModule("tensorflow")

_SECONDS_OF_SILENCE = 3.0
_NO_PATHS = ("runner_options",)
# Options that name a model.
MODELS = ("init_checkpoint", "model", "teacher")


def check_addresses(options: Any) -> None:
    """Checks that TensorFlow has access to the file systems of all options like gs://bucket/file."""
    for name, value in to_json_dict(options).items():
        for path in value if isinstance(value, list) else [value]:
            if not isinstance(path, str) or "://" not in path or name in _NO_PATHS:
                continue
            if name in MODELS and is_download(path):
                continue
            try:
                with _say_if_slow(
                    f"--{name}={path}: waiting for an answer, for some minutes at most"
                ):
                    files.exists(path)
            except tf.errors.OpError as error:
                raise InputError(
                    f"--{name}={path}: TensorFlow has no access: {files.reason(error)}; expected a local "
                    "path, or a path on a file system that TensorFlow can read"
                ) from error


@contextlib.contextmanager
def _say_if_slow(line: str) -> Iterator[None]:
    """Prints a line if the block takes seconds, as TensorFlow tries again in silence without network."""
    timer = threading.Timer(_SECONDS_OF_SILENCE, print, [line], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def refuse_existing(flag: str, path: str) -> None:
    """Raises an `InputError` if the output that a flag names is there."""
    if files.exists(path):
        raise InputError(f"--{flag}: '{path}' exists already; remove it or name another place")
