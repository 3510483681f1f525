"""Files and folders that appear under their names when they are complete.

Each is written under a name of its own, `<name>.<machine>-<process>-<number>.incomplete`, and renamed at
the end. So no other name is ever half-written, and of several processes that write the same file the last
one wins, with all that it wrote. The name says who writes, so that what a killed process has left is
recognised, and removed by the next one that writes the same file.
"""

import contextlib
import functools
import hashlib
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from albert_tf import file_systems
from albert_tf.errors import StoppedError

INCOMPLETE = ".incomplete"

_WRITER = re.compile(
    rf"\.(?P<machine>[0-9a-f]{{6}})-(?P<process>\d+)-[0-9a-f]{{8}}{re.escape(INCOMPLETE)}$"
)
# With what is added a name has to fit into 255 bytes.
_MAX_NAME_BYTES = 200
# What another machine has not touched for as long is not being written.
_SECONDS_OF_OTHERS = 86_400


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[str]:
    """Yields a path to write a file or folder to, and renames it to `path` on success.

    After an exception, what was written is removed and `path` is unchanged.
    """
    path = file_systems.as_path(path)
    incomplete = _new_name(path)
    with explain_refusal(path):
        _remove_abandoned(path)
        try:
            yield incomplete
            file_systems.rename(incomplete, path)
        finally:
            file_systems.remove(incomplete)


@contextlib.contextmanager
def write_together(paths: Sequence[str]) -> Iterator[str]:
    """Yields a folder to write files in, and moves them on success to `paths`, in this order."""
    folder = _new_name(paths[-1])
    with explain_refusal(paths[-1]):
        _remove_abandoned(paths[-1])
        try:
            file_systems.make_folders(folder)
            yield folder
            for path in paths:
                file_systems.rename(os.path.join(folder, os.path.basename(path)), path)
        finally:
            file_systems.remove(folder)


def write_once(path: str, write: Callable[..., None], *content: Any) -> None:
    """Calls `write(path, *content)`, which writes a file atomically, unless it exists.

    Another process may be writing the same file, such as a worker that was taken for dead.
    """
    if not file_systems.exists(path):
        write(path, *content)


def remove_unfinished(folder: str) -> None:
    """Removes all that is unfinished in a folder. No other process may be writing there."""
    for path in file_systems.matches(folder, f"*{INCOMPLETE}"):
        if _WRITER.search(path):
            file_systems.remove(path)


@contextlib.contextmanager
def explain_refusal(path: str) -> Iterator[None]:
    """Turns an error of the file system into a `StoppedError` that names the file."""
    try:
        yield
    except file_systems.errors() as error:
        named = "/".join(_finished_name(part) for part in path.split("/"))
        raise StoppedError(f"{named}: cannot be written: {file_systems.reason(error)}") from error


def _finished_name(name: str) -> str:
    """Returns the name that the user gave to what has another one until it is complete."""
    while _WRITER.search(name):  # what is written within an unfinished folder has two endings
        name = _WRITER.sub("", name)
    return name.removesuffix(INCOMPLETE)


def _stem(path: str) -> str:
    """Returns a path that begins the names under which another one is written."""
    folder, name = os.path.split(path.rstrip("/"))
    if len(encoded := name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        name = hashlib.sha256(encoded).hexdigest()
    return os.path.join(folder, name)


def _new_name(path: str) -> str:
    return f"{_stem(path)}.{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}{INCOMPLETE}"


def _unfinished(path: str) -> list[str]:
    folder, name = os.path.split(_stem(path))
    pattern = f"{file_systems.escape(name)}.*{INCOMPLETE}"
    found = file_systems.matches(folder, pattern)
    return [other for other in found if _WRITER.search(other[len(_stem(path)) :])]


def _remove_abandoned(path: str) -> None:
    """Removes what killed processes have left of the same path.

    In a folder that is itself unfinished nothing is searched for: who writes the folder removes it.
    """
    if INCOMPLETE not in os.path.dirname(path):
        for unfinished in filter(_is_abandoned, _unfinished(path)):
            file_systems.remove(unfinished)


def _is_abandoned(path: str) -> bool:
    writer = _WRITER.search(path)
    assert writer is not None, "`_unfinished` returns such names only"
    if writer["machine"] != _machine():
        try:
            modified = file_systems.status(path).modified / 1e9
        except file_systems.errors():  # renamed meanwhile
            return False
        # Folders of object stores have no time.
        return 0 < modified < time.time() - _SECONDS_OF_OTHERS
    if os.name != "posix":
        return False
    try:
        os.kill(int(writer["process"]), 0)
    except ProcessLookupError:
        return True
    except OSError:  # the process of another user
        pass
    return False


@functools.cache
def _machine() -> str:
    """Returns what tells this machine, or container, from others; another one after each start."""
    described = [socket.gethostname()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        described.append(file.read())
    with contextlib.suppress(OSError):
        described.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(repr(described).encode()).hexdigest()[:6]
