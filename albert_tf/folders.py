"""Folders that one process writes at a time, and that are replaced as a whole."""

import contextlib
import os
import socket
from collections.abc import Iterator

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.lazy import LazyModule

tf = LazyModule("tensorflow")

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

_LOCK = ".lock"
_PREVIOUS = ".previous"


@contextlib.contextmanager
def lock_folder(path: str) -> Iterator[None]:
    """Holds the lock of an existing folder, which only one process at a time can hold.

    The kernel releases the lock when its owner ends, in whatever way. On Windows, and on file systems
    without locks, e.g. object stores such as gs://, nothing is locked.
    """
    if "://" in path or fcntl is None:
        yield
        return
    name = os.path.join(path, _LOCK)
    with contextlib.ExitStack() as stack:
        with files.explain_refusal(name):
            file = stack.enter_context(open(name, "ab+", buffering=0))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise InputError(
                    f"{path}: {file.read().decode().strip() or 'another process'} is training in this "
                    "folder; wait until it has ended, or use another folder"
                ) from error
            except OSError:
                pass  # the file system has no locks
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield


@contextlib.contextmanager
def replace_folder(path: str) -> Iterator[str]:
    """Yields a path to write a folder to, and puts it in the place of `path` on success.

    At any time `current_folder` finds either the one or the other.
    """
    previous = path + _PREVIOUS
    with files.write_atomically(path) as incomplete:
        yield incomplete
        if tf.io.gfile.isdir(path):
            files.remove(previous)
            tf.io.gfile.rename(path, previous)
    files.remove(previous)


def clean_folder(path: str) -> None:
    """Removes what a killed process left of `replace_folder`."""
    files.remove(path + files.INCOMPLETE)
    if tf.io.gfile.exists(path):
        files.remove(path + _PREVIOUS)


def current_folder(path: str) -> str:
    """Returns the path of a folder, which has another name while `replace_folder` renames the new one."""
    previous = path + _PREVIOUS
    if not tf.io.gfile.exists(path) and tf.io.gfile.exists(previous):
        return previous
    return path
