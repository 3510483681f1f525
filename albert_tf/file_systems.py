"""The operations of file systems: local ones, with any bytes in names, and all of `tf.io.gfile`.

A path is a string. A name that is not UTF-8 has surrogates in it, as `os.fsdecode` makes them of UTF-8,
whatever the locale. TensorFlow's own operations fail for such names, and take a backslash or `[` for a
part of a pattern; so local paths go to the operating system, and those with `://` to TensorFlow.
"""

import contextlib
import errno
import glob
import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from albert_tf.errors import InputError
from albert_tf.lazy import LazyModule

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = LazyModule("tensorflow")

# Length of a library's message within one of ours.
_MAX_REASON_LENGTH = 200


class Status(NamedTuple):
    """Size and time of a file."""

    size: int  # in bytes
    modified: int  # time of the last change, nanoseconds since 1970


def is_remote(path: str) -> bool:
    """Returns whether a path is on a file system of TensorFlow, such as `gs://`."""
    return "://" in path


def as_path(path: str | os.PathLike[str]) -> str:
    """Returns a path as the file system has it: of `~/models` that in the user's home."""
    path = os.fspath(path)
    path = os.path.expanduser(path) if "/" in path else path
    try:
        return _decode(os.fsencode(path))  # which is UTF-8 in all locales
    except UnicodeEncodeError:
        return path


def native(path: str) -> bytes:
    """Returns a local path as the operating system has it."""
    try:
        encoded = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise OSError(errno.EILSEQ, "not the name of a file") from error
    if b"\0" in encoded:
        raise OSError(errno.EINVAL, "not the name of a file")
    return encoded


def for_tensorflow(path: str) -> str | bytes:
    """Returns a path for those functions of TensorFlow that take bytes."""
    return path if is_remote(path) else native(path)


def _decode(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def refuse_for_tensorflow(path: str) -> None:
    """Raises an `InputError` for a path that TensorFlow's readers of checkpoints would not find."""
    if "[" in path or "\\" in path:
        character = "[" if "[" in path else "\\"
        raise InputError(
            f"{path}: TensorFlow takes '{character}' for a pattern; expected a path without it"
        )
    refuse_other_than_utf8(path)


def refuse_other_than_utf8(path: str) -> None:
    """Raises an `InputError` for a path whose bytes are not UTF-8, where a library takes no other."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path}: a name that is not UTF-8, which TensorFlow needs; expected another name"
        ) from error


def open_file(path: str, mode: str) -> IO[bytes] | Any:
    """Opens a file of bytes: `rb` or `wb`."""
    return tf.io.gfile.GFile(path, mode) if is_remote(path) else open(native(path), mode)


def exists(path: str) -> bool:
    """Returns whether there is a file or folder."""
    if is_remote(path):
        return tf.io.gfile.exists(path)
    try:
        return os.path.exists(native(path))
    except OSError:
        return False


def is_folder(path: str) -> bool:
    """Returns whether there is a folder."""
    if is_remote(path):
        return tf.io.gfile.isdir(path)
    try:
        return os.path.isdir(native(path))
    except OSError:
        return False


def status(path: str) -> Status:
    """Returns the size and time of a file."""
    if is_remote(path):
        found = tf.io.gfile.stat(path)
        return Status(found.length, found.mtime_nsec)
    local = os.stat(native(path))
    return Status(local.st_size, local.st_mtime_ns)


def list_names(folder: str) -> list[str]:
    """Returns the names in a folder, sorted."""
    if is_remote(folder):
        return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    return sorted(map(_decode, os.listdir(native(folder) or b".")))


def walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields the path of each folder in a folder, its folders and its files.

    Links to folders are followed. The caller may sort the folders, or remove some.
    """
    if is_remote(folder):
        yield from tf.io.gfile.walk(folder)
        return
    for parent, folders, names in os.walk(native(folder), followlinks=True):
        entered = list(map(_decode, folders))
        yield _decode(parent), entered, list(map(_decode, names))
        folders[:] = map(native, entered)


def find(pattern: str) -> list[str]:
    r"""Returns the paths that match a pattern of the user, sorted.

    `*`, `?` and `[...]` have the meaning that they have in a shell; after a backslash they are
    themselves, and so they are in the name of a folder that exists.
    """
    if is_remote(pattern):
        return sorted(tf.io.gfile.glob(pattern))
    folder, rest = pattern, ""
    while folder and not exists(folder):
        folder, name = os.path.split(folder)
        rest = os.path.join(name, rest) if rest else name
    return matches(folder, re.sub(r"\\([*?[])", r"[\1]", rest).replace("[^", "[!"))


def matches(folder: str, pattern: str) -> list[str]:
    """Returns the paths in a folder that match a pattern, sorted. The folder's name is no pattern."""
    escaped = glob.escape(folder)
    if is_remote(folder):
        return sorted(tf.io.gfile.glob(os.path.join(escaped, pattern).replace("\\", r"\\")))
    found = glob.glob(native(os.path.join(escaped, pattern)), include_hidden=True)
    return sorted(map(_decode, found))


def escape(name: str) -> str:
    """Returns the pattern that a name alone matches; for `matches`, where a backslash is itself."""
    return glob.escape(name)


def make_folders(path: str) -> None:
    """Makes a folder and its parents if they are missing."""
    if is_remote(path):
        tf.io.gfile.makedirs(path)
    else:
        os.makedirs(native(path), exist_ok=True)


def rename(source: str, target: str) -> None:
    """Renames a file or folder. A file takes the place of another file."""
    if is_remote(target):
        tf.io.gfile.rename(source, target, overwrite=True)
    else:
        os.replace(native(source), native(target))


def remove(path: str) -> None:
    """Removes a file, or a folder with its content, if it exists."""
    if is_remote(path):
        if tf.io.gfile.isdir(path):
            tf.io.gfile.rmtree(path)
        elif tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)
        return
    local = native(path)
    if os.path.isdir(local) and not os.path.islink(local):
        shutil.rmtree(local)
    elif os.path.lexists(local):
        os.remove(local)


def errors() -> tuple[type[Exception], ...]:
    """Returns what operations on files raise: Python's errors, and `tf.io.gfile`'s."""
    return OSError, tf.errors.OpError


@contextlib.contextmanager
def explain_unreadable(path: str) -> Iterator[None]:
    """Turns an error of the file system into an `InputError` that names the file."""
    try:
        yield
    except errors() as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Returns the reason of an error of TensorFlow or the file system, without path and stack."""
    message = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    # gRPC appends many lines about the state of the connection.
    message = message.split("\nAdditional GRPC error information")[0]
    if message.startswith("Graph execution error"):
        # Between the lines of Python that made the operator, and the operator's name.
        message = message.split("\n\t [[")[0].rpartition("\n\n")[2]
    # Where in the graph it happened, as in "{{function_node __inference_f_1}} reason".
    message = re.sub(r"\{\{function_node .*?\}\} ", "", message)
    return textwrap.shorten(message.split(";")[-1], _MAX_REASON_LENGTH, placeholder=" ...")
