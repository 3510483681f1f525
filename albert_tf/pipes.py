"""Pipes as inputs: `<(...)` of a shell, `/dev/stdin`, named pipes.

A pipe can be read once, and a command reads most of its inputs several times: to find their columns, to
count, to check. So the first reader copies it to a temporary file, which all read.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO

from albert_tf import file_systems
from albert_tf.errors import InputError, StoppedError
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress

_CHUNK_BYTES = 1 << 20
_MEGABYTE = 1e6
_IS_STREAM = (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISCHR)

# Those of this process, as what a pipe held is nowhere else.
_copies: "_Copies | None" = None


@contextlib.contextmanager
def copied_pipes() -> Iterator[None]:
    """Makes pipes readable like files; at the end their copies are removed."""
    global _copies
    with contextlib.ExitStack() as stack:
        _copies = _Copies(stack)
        try:
            yield
        finally:
            _copies = None


def readable(path: str) -> str:
    """Returns the path to read a file from: that of a pipe's copy, any other as it is.

    Raises:
        InputError: it is a pipe, outside of `copied_pipes`, where nobody knows how often it is read.
    """
    key = _stream(path)
    if key is None:
        return path
    if _copies is None:
        raise InputError(f"{path}: a pipe, which can only be read once; expected a file")
    return _copies.find(path, key)


def refuse_pipe(path: str) -> None:
    """Raises an `InputError` for a pipe, where a file is read by TensorFlow or by other processes."""
    if _stream(path) is not None:
        raise InputError(f"{path}: a pipe; expected a file: write it to one first")


def _stream(path: str) -> tuple[int, int] | None:
    """Returns device and number of a pipe, socket or terminal; None for anything else."""
    if file_systems.is_remote(path):
        return None
    try:
        found = os.stat(file_systems.native(path))
    except OSError:
        return None
    is_stream = any(test(found.st_mode) for test in _IS_STREAM)
    return (found.st_dev, found.st_ino) if is_stream else None


class _Copies:
    """The copies of pipes, until a stack ends."""

    def __init__(self, stack: contextlib.ExitStack):
        self._stack = stack
        self._paths: dict[tuple[int, int], str] = {}

    def find(self, path: str, key: tuple[int, int]) -> str:
        """Returns the path of the copy of a pipe, which is read now unless it was before."""
        if key not in self._paths:
            try:
                copy = self._stack.enter_context(tempfile.NamedTemporaryFile())  # noqa: SIM115
                self._fill(copy, path)
            except OSError as error:
                raise StoppedError(
                    f"{path}: a pipe that cannot be copied to {tempfile.gettempdir()}: "
                    f"{file_systems.reason(error)}"
                ) from error
            self._paths[key] = copy.name
        return self._paths[key]

    def _fill(self, copy: IO[bytes], path: str) -> None:
        with (
            file_systems.open_file(path, "rb") as pipe,
            Progress(f"reading {path}", "MB", delay=SECONDS_WITHOUT_PROGRESS) as progress,
        ):
            while chunk := pipe.read(_CHUNK_BYTES):
                copy.write(chunk)
                progress.update(len(chunk) / _MEGABYTE)
        copy.flush()
