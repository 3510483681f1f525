"""Folders that one process writes at a time, and that are replaced as a whole."""

import contextlib
import os
import socket
from collections.abc import Iterator

from albert_tf import file_systems, files
from albert_tf.errors import InputError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]  # of a module that is not there

LOCK = ".lock"
_PREVIOUS = ".previous"
_TRAINING = "is training in this folder; wait until it has ended, or use another folder"


@contextlib.contextmanager
def lock_folder(path: str, reason: str = _TRAINING) -> Iterator[None]:
    """Holds the lock of an existing folder, which only one process at a time can hold.

    `reason` says, after the name of the process that holds it, what it does and what to do about it.
    The kernel releases the lock when its owner ends, in whatever way. On Windows, and on file systems
    without locks, e.g. object stores such as gs://, nothing is locked.
    """
    if file_systems.is_remote(path) or fcntl is None:
        yield
        return
    name = os.path.join(path, LOCK)
    with contextlib.ExitStack() as stack:
        with files.explain_refusal(name):
            file = stack.enter_context(open(file_systems.native(name), "ab+", buffering=0))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                owner = file.read().decode().strip() or "another process"
                raise InputError(f"{path}: {owner} {reason}") from error
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
        if files.is_folder(path):
            files.remove(previous)
            files.rename(path, previous)
    files.remove(previous)


def clean_folder(path: str) -> None:
    """Removes the copy that a killed process left of `replace_folder`."""
    if files.exists(path):
        files.remove(path + _PREVIOUS)


def current_folder(path: str) -> str:
    """Returns the path of a folder, which has another name while `replace_folder` renames the new one."""
    previous = path + _PREVIOUS
    if not files.exists(path) and files.exists(previous):
        return previous
    return path
