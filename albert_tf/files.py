"""Files in and out, on local disks and on everything else that `tf.io.gfile` reaches.

Reading reports a user's mistakes with file and line. Writing goes to a name that ends in
`.incomplete` and is renamed when it is complete, so a name without that ending is never half-written.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import socket
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf import gfile
from albert_tf.errors import InputError, StoppedError

INCOMPLETE = ".incomplete"

_CHUNK_BYTES = 1 << 20
# A file of other lines than text has might be one line, and fill the memory.
_MAX_LINE_BYTES = 1 << 26

# Of a library's message in one of ours, which is a line.
_MAX_REASON_LENGTH = 200

_LOCK = ".lock"


def expand_globs(patterns: Sequence[str]) -> list[str]:
    """Returns the files that match, sorted within each pattern, each file once.

    Args:
        patterns: file names or glob patterns.

    Raises:
        InputError: a pattern matches no file.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if gfile.isdir(pattern):
            raise InputError(f"'{pattern}' is a folder; expected files, e.g. '{pattern}/*'")
        matches = sorted(path for path in gfile.glob(pattern) if not gfile.isdir(path))
        if not matches:
            raise InputError(f"no file matches '{pattern}'")
        found.update(dict.fromkeys(matches))
    return list(found)


def read_bytes(path: str) -> bytes:
    """Returns the content of a file.

    Raises:
        InputError: the file does not exist or cannot be read.
    """
    return b"".join(read_chunks(path))


def read_chunks(path: str) -> Iterator[bytes]:
    """Yields the content of a file in parts of a megabyte.

    Raises:
        InputError: the file does not exist or cannot be read.
    """
    refuse_folder(path)
    with explain_unreadable(path), gfile.GFile(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def sha256(path: str) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal.

    Raises:
        InputError: the file does not exist or cannot be read.
    """
    digest = hashlib.sha256()
    for chunk in read_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Yields (line number from 1, line without its end) of a UTF-8 text file.

    Lines end in `\n` or `\r\n`; a byte-order mark at the start is dropped.

    Raises:
        InputError: the file cannot be read, or a line is not UTF-8.
    """
    return decode_lines(read_chunks(path), path, decode_strictly)


def decode_lines(
    chunks: Iterable[bytes], path: str, decode: Callable[[bytes, str], str]
) -> Iterator[tuple[int, str]]:
    """Yields the lines that chunks of bytes hold, as `read_lines` does.

    Args:
        chunks: the content of a file.
        path: names the file in messages.
        decode: (bytes of a line, where it is) -> its text.

    Raises:
        InputError: from `decode`, or a line has more than 64 MB.
    """
    for number, line in enumerate(_split_lines(chunks, path), start=1):
        text = decode(line, f"{path}, line {number}")
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield number, text.removesuffix("\r")


def _split_lines(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    r"""TensorFlow's own reader drops every `\r`, also one between two words."""
    number = 1
    start, length = [], 0  # of a line that the next chunk may end
    for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        start.append(first)
        length += len(first)
        if lines:
            yield b"".join(start)
            yield from lines[:-1]
            number += len(lines)
            start, length = lines[-1:], len(lines[-1])
        if length > _MAX_LINE_BYTES:
            raise InputError(
                f"{path}, line {number}: is longer than {_MAX_LINE_BYTES >> 20} MiB; "
                "expected a file of lines"
            )
    if length:
        yield b"".join(start)


def refuse_folder(path: str) -> None:
    """Raises `InputError` if a path is a folder, which TensorFlow reads as an empty file."""
    if gfile.isdir(path):
        raise InputError(f"{path}: a folder; expected a file")


def decode_strictly(line: bytes, place: str) -> str:
    """Returns the text of a line.

    Raises:
        InputError: it is not UTF-8; `place` says where it is.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place}: byte {error.start + 1} is 0x{line[error.start]:02x}, "
            "which is not UTF-8; convert the file, e.g. with iconv"
        ) from error


def read_json(path: str) -> Any:
    """Returns the value in a JSON file.

    Raises:
        InputError: the file cannot be read, or as `parse_json` does.
    """
    return parse_json(read_bytes(path), path)


def parse_json(text: str | bytes, path: str, line: int | None = None) -> Any:
    """Parses JSON text.

    Args:
        text: the text; UTF-8 if it is bytes.
        path: file that the text is from, for messages.
        line: the line of the file that holds all of the text; None if the text is the whole file.

    Raises:
        InputError: the text is not JSON, is nested too deeply, or has an integer of too many digits.
    """
    place = path if line is None else f"{path}, line {line}"
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {line or error.lineno}: not JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not JSON: byte {error.start + 1} is not UTF-8") from error
    except RecursionError as error:
        raise InputError(f"{place}: JSON nested too deeply; expected fewer levels") from error
    except ValueError as error:
        limit = sys.get_int_max_str_digits()
        raise InputError(
            f"{place}: JSON with an integer of more than {limit} digits; expected fewer"
        ) from error


def write_json(path: str, value: Any) -> None:
    """Writes a value as indented JSON, atomically."""
    write_text(path, to_json(value))


def to_json(value: Any) -> str:
    """Returns a value as our JSON files hold it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_json_lines(path: str) -> list[Any]:
    """Returns the values of a file with one in JSON a line; none where there is no such file.

    Raises:
        InputError: the file cannot be read, or a line is not JSON.
    """
    if not gfile.exists(path):
        return []
    return [parse_json(line, path, number) for number, line in read_lines(path)]


def write_json_lines(path: str, values: Iterable[Any]) -> None:
    """Writes values as JSON, one a line, atomically."""
    write_text(path, "".join(json.dumps(value) + "\n" for value in values))


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file, atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str, content: bytes) -> None:
    """Writes a file, atomically."""
    with write_atomically(path) as incomplete, gfile.GFile(incomplete, "wb") as file:
        file.write(content)


def write_picture(path: str, figure: Any) -> None:
    """Writes a figure of Matplotlib as PNG, atomically."""
    content = io.BytesIO()  # Matplotlib itself writes to local disks alone
    figure.savefig(content, format="png")
    write_bytes(path, content.getvalue())


def make_directory(path: str, flag: str) -> None:
    """Makes a folder and its parents where they are absent.

    Raises:
        InputError: it cannot be made; `flag` names the flag that asked for it.
    """
    try:
        gfile.makedirs(path)
    except OSError as error:
        raise InputError(f"--{flag}: cannot make the folder '{path}': {reason(error)}") from error


@contextlib.contextmanager
def lock_folder(path: str, flag: str) -> Iterator[None]:
    """Holds the lock of a folder, which one process at a time can hold.

    The kernel releases it when its owner ends, however that happens. Object stores such as gs:// have no
    locks, and a file system without them is not locked either.

    Args:
        path: an existing folder.
        flag: the flag that names it, for the message.

    Raises:
        InputError: another process holds the lock, or the folder cannot be written to.
    """
    if "://" in path:
        yield
        return
    name = os.path.join(path, _LOCK)
    with contextlib.ExitStack() as stack:
        with explain_refusal(name):
            file = stack.enter_context(open(name, "a+", encoding="utf-8"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise InputError(
                f"--{flag}={path}: {file.read().strip() or 'another process'} is training in it; wait "
                "until it has ended, or name another folder"
            ) from error
        except OSError:
            pass  # The file system has no locks.
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def check_addresses(values: Mapping[str, Any]) -> None:
    """Checks that TensorFlow reaches the file systems of all paths such as gs://bucket/file.

    Args:
        values: flag -> its value; only text with `://` is a path to check, alone or in a list.

    Raises:
        InputError: it does not know the file system, or has no access to it.
    """
    for flag, value in values.items():
        for path in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(path, str) or "://" not in path:
                continue
            try:
                gfile.exists(path)
            except OSError as error:
                raise InputError(
                    f"--{flag}={path}: TensorFlow has no access: {reason(error)}; expected a path on "
                    "this machine, or one on a file system that TensorFlow can read"
                ) from error


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[str]:
    """Gives a name to write a file or a folder under, and renames it to `path` on success.

    On an exception what was written is removed, and what `path` held before stays.

    Raises:
        InputError: the file system refuses (full, read-only, no such folder).
    """
    incomplete = path.rstrip("/") + INCOMPLETE
    remove(incomplete)
    try:
        with explain_refusal(path):
            yield incomplete
            gfile.rename(incomplete, path, overwrite=True)
    finally:
        remove(incomplete)


@contextlib.contextmanager
def write_together(paths: Sequence[str]) -> Iterator[str]:
    """Gives a folder to write several files in, and moves them to their places on success.

    Args:
        paths: the files, all of one folder, in the order in which they appear.

    Raises:
        InputError: the file system refuses (full, read-only).
    """
    folder = paths[-1] + INCOMPLETE
    try:
        with explain_refusal(paths[-1]):
            remove(folder)
            gfile.makedirs(folder)
            yield folder
            for path in paths:
                incomplete = os.path.join(folder, os.path.basename(path))
                gfile.rename(incomplete, path, overwrite=True)
    finally:
        remove(folder)


@contextlib.contextmanager
def explain_unreadable(path: str) -> Iterator[None]:
    """Turns the file system's error into an `InputError` that names the file."""
    try:
        yield
    except _file_errors() as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from error


@contextlib.contextmanager
def explain_refusal(path: str) -> Iterator[None]:
    """Turns the file system's error into one that names the file that the user knows.

    Raises:
        StoppedError: the file system refused what was done within.
    """
    try:
        yield
    except _file_errors() as error:
        raise StoppedError(f"{path}: cannot be written: {reason(error)}") from error


def remove(path: str) -> None:
    """Removes a file, or a folder with all that is in it, where there is one."""
    if gfile.isdir(path):
        gfile.rmtree(path)
    elif gfile.exists(path):
        gfile.remove(path)


def reason(error: Exception) -> str:
    """Returns the operating system's reason for an error, without the path."""
    message = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    # gRPC's messages end with the state of the connection, over many lines.
    message = message.split("\nAdditional GRPC error information")[0]
    return textwrap.shorten(message.split(";")[-1], _MAX_REASON_LENGTH, placeholder=" ...")


def _file_errors() -> tuple[type[Exception], ...]:
    """Returns what file operations raise: TensorFlow's too, once something has imported it."""
    tensorflow = sys.modules.get("tensorflow")
    return (OSError, tensorflow.errors.OpError) if tensorflow else (OSError,)
