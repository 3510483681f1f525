"""Files in and out, on local disks and on everything else `tf.io.gfile` reaches.

Reading reports a user's mistakes with file and line. Writing goes to a name that ends in
`.incomplete` and is renamed when it is complete, so a name without that ending is never half-written.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError

INCOMPLETE = ".incomplete"


def expand_globs(patterns: Sequence[str], flag: str) -> list[str]:
    """Returns the files that match, sorted within each pattern, each file once.

    Args:
        patterns: file names or glob patterns.
        flag: name of the flag that gave them, for the message.

    Raises:
        InputError: a pattern matches no file.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        matches = sorted(path for path in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(path))
        if not matches:
            raise InputError(f"--{flag}: no file matches '{pattern}'")
        found.update(dict.fromkeys(matches))
    return list(found)


def read_bytes(path: str) -> bytes:
    """Returns the content of a file.

    Raises:
        InputError: the file does not exist or cannot be read.
    """
    _refuse_folder(path)
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be read: {_reason(error)}") from error


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Yields (line number from 1, line without its end) of a UTF-8 text file.

    Lines end in `\n` or `\r\n`; a byte-order mark at the start is dropped.

    Raises:
        InputError: the file cannot be read, or a line is not UTF-8.
    """
    _refuse_folder(path)
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield number, _decode(line, path, number).removesuffix("\n").removesuffix("\r")
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be read: {_reason(error)}") from error


def _refuse_folder(path: str) -> None:
    """TensorFlow reads a folder as an empty file."""
    if tf.io.gfile.isdir(path):
        raise InputError(f"{path}: a folder; expected a file")


def _decode(line: bytes, path: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: byte {error.start + 1} is 0x{line[error.start]:02x}, "
            "which is not UTF-8; convert the file, e.g. with iconv"
        ) from error


def read_json(path: str) -> Any:
    """Returns the value in a JSON file.

    Raises:
        InputError: the file cannot be read or is not JSON.
    """
    try:
        return json.loads(read_bytes(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not JSON: byte {error.start + 1} is not UTF-8") from error


def write_json(path: str, value: Any) -> None:
    """Writes a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file, atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str, content: bytes) -> None:
    """Writes a file, atomically."""
    with write_atomically(path) as incomplete, tf.io.gfile.GFile(incomplete, "wb") as file:
        file.write(content)


def make_directory(path: str, flag: str) -> None:
    """Makes a folder and its parents where they are absent.

    Raises:
        InputError: it cannot be made; `flag` names the flag that asked for it.
    """
    try:
        tf.io.gfile.makedirs(path)
    except tf.errors.OpError as error:
        raise InputError(f"--{flag}: cannot make the folder '{path}': {_reason(error)}") from error


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[str]:
    """Gives a name to write a file or a folder under, and renames it to `path` on success.

    On an exception what was written is removed, and what `path` held before stays.

    Raises:
        InputError: the file system refuses (full, read-only, no such folder).
    """
    incomplete = path.rstrip("/") + INCOMPLETE
    _remove(incomplete)
    try:
        yield incomplete
        tf.io.gfile.rename(incomplete, path, overwrite=True)
    except (OSError, tf.errors.OpError) as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}") from error
    finally:
        _remove(incomplete)


@contextlib.contextmanager
def write_together(prefix: str, suffixes: Sequence[str]) -> Iterator[str]:
    """Gives a prefix to write several files under, and renames them to `prefix` on success.

    Args:
        prefix: what the files' names begin with.
        suffixes: how they end, in the order in which they appear.

    Raises:
        InputError: the file system refuses (full, read-only).
    """
    folder = prefix + INCOMPLETE
    incomplete = os.path.join(folder, os.path.basename(prefix))
    try:
        _remove(folder)
        tf.io.gfile.makedirs(folder)
        yield incomplete
        for suffix in suffixes:
            tf.io.gfile.rename(incomplete + suffix, prefix + suffix, overwrite=True)
    except (OSError, tf.errors.OpError) as error:
        raise InputError(f"{prefix}: cannot be written: {_reason(error)}") from error
    finally:
        _remove(folder)


def _remove(path: str) -> None:
    if tf.io.gfile.isdir(path):
        tf.io.gfile.rmtree(path)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


def _reason(error: Exception) -> str:
    """The last part of an operating-system message, which holds the reason; the path is named already."""
    message = error.message if isinstance(error, tf.errors.OpError) else str(error)
    return " ".join(message.split(";")[-1].split())
