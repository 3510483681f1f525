"""The file operations of `tf.io.gfile`, without TensorFlow for local paths.

Importing TensorFlow takes seconds, and making pre-training data needs nothing else of it. So only remote
paths (`gs://...`) import TensorFlow. Names, arguments and results are those of `tf.io.gfile`. Failures
raise `OSError`.
"""

import contextlib
import glob as python_glob
import os
import shutil
import types
from collections.abc import Iterator
from typing import IO, Any, NamedTuple


class FileStatistics(NamedTuple):
    """Size and time of a file.

    Attributes:
        length: bytes.
        mtime_nsec: last change, nanoseconds since 1970.
    """

    length: int
    mtime_nsec: int


def exists(path: str) -> bool:
    """Returns whether a file or folder exists."""
    return _remote("exists", path) if _is_remote(path) else os.path.exists(path)


def isdir(path: str) -> bool:
    """Returns whether a path is a folder."""
    return _remote("isdir", path) if _is_remote(path) else os.path.isdir(path)


def glob(pattern: str) -> list[str]:
    """Returns the files and folders that match a pattern, including hidden ones."""
    if _is_remote(pattern):
        return _remote("glob", pattern)
    return python_glob.glob(pattern, include_hidden=True)


def walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields (folder, its folders, its files) for a folder and all below it, like `os.walk`."""
    yield from _remote("walk", folder) if _is_remote(folder) else os.walk(folder, followlinks=True)


def listdir(folder: str) -> list[str]:
    """Returns the names in a folder; names of remote folders may end with a slash."""
    return _remote("listdir", folder) if _is_remote(folder) else os.listdir(folder)


def stat(path: str) -> FileStatistics:
    """Returns the size and the time of a file."""
    if _is_remote(path):
        found = _remote("stat", path)
        return FileStatistics(found.length, found.mtime_nsec)
    local = os.stat(path)
    return FileStatistics(local.st_size, local.st_mtime_ns)


def makedirs(path: str) -> None:
    """Makes a folder and its parents if they are missing."""
    _remote("makedirs", path) if _is_remote(path) else os.makedirs(path or ".", exist_ok=True)


def rename(source: str, target: str, overwrite: bool = False) -> None:
    """Renames a file or a folder; `overwrite` replaces an existing file."""
    if _is_remote(source):
        _remote("rename", source, target, overwrite)
    elif os.path.exists(target) and not overwrite:
        raise FileExistsError(f"{target}: exists already")
    else:
        os.replace(source, target)


def remove(path: str) -> None:
    """Removes a file."""
    _remote("remove", path) if _is_remote(path) else os.remove(path)


def rmtree(folder: str) -> None:
    """Removes a folder and its content."""
    _remote("rmtree", folder) if _is_remote(folder) else shutil.rmtree(folder)


@contextlib.contextmanager
def GFile(path: str, mode: str) -> Iterator[IO[bytes]]:  # noqa: N802, TensorFlow's name
    """Opens a binary file, with mode `rb` or `wb`."""
    if not _is_remote(path):
        with open(path, mode) as file:
            yield file
        return
    with _os_errors() as tf, tf.io.gfile.GFile(path, mode) as file:
        yield file


def _is_remote(path: str) -> bool:
    return "://" in path


def _remote(name: str, *arguments: Any) -> Any:
    """Calls a function of `tf.io.gfile`."""
    with _os_errors() as tf:
        return getattr(tf.io.gfile, name)(*arguments)


@contextlib.contextmanager
def _os_errors() -> Iterator[types.ModuleType]:
    """Yields TensorFlow, and turns its errors into `OSError`."""
    import tensorflow as tf

    try:
        yield tf
    except tf.errors.OpError as error:
        raise OSError(error.message) from error
