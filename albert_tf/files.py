"""Files in and out, on local disks and on everything else `tf.io.gfile` reaches.

Reading reports a user's mistakes with file and line. Writing goes to a name that ends in
`.incomplete` and is renamed when it is complete, so a name without that ending is never half-written.
"""

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError

INCOMPLETE = ".incomplete"

_CHUNK_BYTES = 1 << 20


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
        if tf.io.gfile.isdir(pattern):
            raise InputError(
                f"--{flag}: '{pattern}' is a folder; expected files, e.g. '{pattern}/*'"
            )
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
    return b"".join(_read_chunks(path))


def _read_chunks(path: str) -> Iterator[bytes]:
    _refuse_folder(path)
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from error


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Yields (line number from 1, line without its end) of a UTF-8 text file.

    Lines end in `\n` or `\r\n`; a byte-order mark at the start is dropped.

    Raises:
        InputError: the file cannot be read, or a line is not UTF-8.
    """
    for number, line in enumerate(_split_lines(_read_chunks(path)), start=1):
        text = _decode(line, path, number)
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield number, text.removesuffix("\r")


def _split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""TensorFlow's own reader drops every `\r`, also one between two words."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


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
        raise InputError(f"--{flag}: cannot make the folder '{path}': {reason(error)}") from error


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
        with _explain_refusal(path):
            yield incomplete
            tf.io.gfile.rename(incomplete, path, overwrite=True)
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
        with _explain_refusal(prefix):
            _remove(folder)
            tf.io.gfile.makedirs(folder)
            yield incomplete
            for suffix in suffixes:
                tf.io.gfile.rename(incomplete + suffix, prefix + suffix, overwrite=True)
    finally:
        _remove(folder)


@contextlib.contextmanager
def write_once(flags: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Gives names to write several new files under, and renames them in order when all are complete.

    What is there is never changed: a file that exists is refused at once. The one exception is what a
    run leaves that is killed between two renames: some of the files, and the folders `<last
    file>.incomplete`. Beside such a folder, a file that exists has to hold byte for byte what is made
    now, so the same command, given again, finishes.

    Args:
        flags: each file, the last to appear last -> the flag that names it, for messages.

    Yields:
        each file -> the name to write it under, in a folder that keeps the file's own name.

    Raises:
        InputError: a file exists, or the file system refuses.
    """
    folder = os.path.basename(list(flags)[-1]) + INCOMPLETE
    incomplete = {
        path: os.path.join(os.path.dirname(path), folder, os.path.basename(path)) for path in flags
    }
    folders = {os.path.dirname(name): flags[path] for path, name in incomplete.items()}
    existing = [path for path in flags if tf.io.gfile.exists(path)]
    if existing and not any(map(tf.io.gfile.isdir, folders)):
        raise InputError(_exists_already(flags, existing[0], ""))
    try:
        for name, flag in folders.items():
            make_directory(name, flag)
        yield incomplete
    except BaseException:
        if not existing:  # else the next run, too, has to know that one was killed
            _remove_all(folders)
        raise
    for path, name in incomplete.items():
        if tf.io.gfile.exists(path) and not _same_bytes(path, name):
            _remove_all(folders)
            raise InputError(_exists_already(flags, path, " and holds something else"))
    # From here on the folders stay until every file has its name.
    for path, name in incomplete.items():
        with _explain_refusal(path):
            tf.io.gfile.rename(name, path, overwrite=True)
    _remove_all(folders)


def _exists_already(flags: Mapping[str, str], path: str, what: str) -> str:
    return f"--{flags[path]}: '{path}' exists already{what}; remove it or name another file"


def _same_bytes(path: str, other: str) -> bool:
    chunks = itertools.zip_longest(_read_chunks(path), _read_chunks(other))
    return all(chunk == its_other for chunk, its_other in chunks)


@contextlib.contextmanager
def _explain_refusal(path: str) -> Iterator[None]:
    """Turns the file system's error into one that names the file that the user knows."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from error


def _remove_all(paths: Iterable[str]) -> None:
    for path in paths:
        _remove(path)


def _remove(path: str) -> None:
    if tf.io.gfile.isdir(path):
        tf.io.gfile.rmtree(path)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


def reason(error: Exception) -> str:
    """Returns the last part of an operating system's message; what comes before names the path."""
    message = error.message if isinstance(error, tf.errors.OpError) else str(error)
    return " ".join(message.split(";")[-1].split())
