"""Reading and writing of files, on local disks and all file systems of `tf.io.gfile`.

A file that cannot be read or is not as expected raises `InputError`, one that cannot be written
`StoppedError`. Both name the file, and the line where there is one. Files are written under a name that
ends in `.incomplete` and renamed when complete, so that no other name is ever half-written.
"""

import contextlib
import glob
import hashlib
import io
import json
import os
import re
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from albert_tf.errors import InputError, StoppedError, warn
from albert_tf.lazy import LazyModule

tf = LazyModule("tensorflow")

INCOMPLETE = ".incomplete"

_CHUNK_BYTES = 1 << 20
# A binary file might be a single line and fill the memory.
_MAX_LINE_BYTES = 1 << 26

# What a file that is not UTF-8 may be, by its first bytes.
_OTHER_FILES = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive or a document of an office program",
    b"\x1f\x8b": "a file of gzip",
    b"BZh": "a file of bzip2",
    b"\xfd7zXZ": "a file of xz",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}

# Length of a library's message within one of ours.
_MAX_REASON_LENGTH = 200


def as_path(path: str | os.PathLike[str]) -> str:
    """Returns a path as the file system has it: of `~/models` that in the user's home."""
    path = os.fspath(path)
    return os.path.expanduser(path) if "/" in path else path


def expand_globs(patterns: Sequence[str]) -> list[str]:
    """Returns the files that match, sorted within each pattern, each file once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if tf.io.gfile.isdir(pattern):
            raise InputError(f"'{pattern}' is a folder; expected files, e.g. '{pattern}/*'")
        # A file's own name may hold the characters of patterns, as in `text[1].txt`.
        names = [pattern] if tf.io.gfile.exists(pattern) else tf.io.gfile.glob(pattern)
        # TensorFlow puts `./` before the names in the current folder.
        names = [name.removeprefix("./") for name in names]
        matches = sorted(name for name in names if not tf.io.gfile.isdir(name))
        if not matches:
            raise InputError(f"no file matches '{pattern}'")
        found.update(dict.fromkeys(matches))
    return list(found)


def matches(folder: str, pattern: str) -> list[str]:
    """Returns the paths in a folder that match a pattern, sorted. `[` in the folder's name is itself."""
    return sorted(tf.io.gfile.glob(os.path.join(glob.escape(folder), pattern)))


def read_bytes(path: str) -> bytes:
    """Returns the content of a file."""
    return b"".join(read_chunks(path))


def read_chunks(path: str) -> Iterator[bytes]:
    """Yields the content of a file in chunks of a megabyte."""
    path = as_path(path)
    refuse_folder(path)
    with explain_unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def sha256(path: str) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    for chunk in read_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Yields the lines of a UTF-8 text file with their numbers from 1.

    Lines end in `\n` or `\r\n`, which are removed, as well as a byte-order mark at the start.
    """
    return decode_lines(read_chunks(path), path, decode_strictly)


def decode_lines(
    chunks: Iterable[bytes], path: str, decode: Callable[[bytes, str], str]
) -> Iterator[tuple[int, str]]:
    """Yields the lines of chunks of bytes like `read_lines`.

    `decode` returns the text of a line, given its bytes and its place.
    """
    for number, line in enumerate(_split_lines(chunks, path), start=1):
        text = decode(line, f"{path}, line {number}")
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield number, text.removesuffix("\r")


def _split_lines(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    r"""Splits at `\n`. TensorFlow's own reader removes every `\r`, even between two words."""
    number = 1
    start, length = [], 0  # of a line that continues in the next chunk
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
        line = b"".join(start)
        if number == 1 and b"\r" in line.removesuffix(b"\r"):
            raise InputError(wrong_line_ends(f"{path}, line 1"))
        yield line


def wrong_line_ends(place: str) -> str:
    """Returns the message for lines as old programs for the Macintosh end them."""
    return rf"{place}: received lines that end in \r; expected \n or \r\n"


def refuse_folder(path: str) -> None:
    """Raises `InputError` for a folder, which TensorFlow reads as an empty file."""
    if tf.io.gfile.isdir(path):
        raise InputError(f"{path}: a folder; expected a file")


def decode_strictly(line: bytes, place: str) -> str:
    """Returns the text of a line."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        for start, what in _OTHER_FILES.items():
            if line.startswith(start):
                raise InputError(f"{place}: begins like {what}; expected UTF-8 text") from error
        raise InputError(
            f"{place}: byte {error.start + 1} is 0x{line[error.start]:02x}, "
            "which is not UTF-8; convert the file, e.g. with iconv"
        ) from error


def read_json(path: str, expected: str = "") -> Any:
    """Returns the value in a JSON file; `expected` is its layout, as text for messages."""
    return parse_json(read_bytes(path), path, expected=expected)


def parse_json(text: str | bytes, path: str, line: int | None = None, expected: str = "") -> Any:
    """Parses JSON text; `path`, `line` if it is not the whole file, and `expected` are for messages."""
    place = path if line is None else f"{path}, line {line}"
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        layout = f"; expected {expected}" if expected else ""
        raise InputError(
            f"{path}, line {line or error.lineno}: not JSON: {error.msg}{layout}"
        ) from error
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
    """Returns a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_json_lines(path: str) -> list[Any]:
    """Returns the values of a JSON-lines file; none if the file does not exist.

    Damaged lines, such as those that a full disk leaves, are left out with a warning.
    """
    if not tf.io.gfile.exists(path):
        return []
    values = []
    for number, line in decode_lines(
        read_chunks(path), path, lambda line, _: line.decode("utf-8", "replace")
    ):
        try:
            values.append(parse_json(line, path, number))
        except InputError as error:
            warn(f"{error}; leaving the line out")
    return values


def write_json_lines(path: str, values: Iterable[Any]) -> None:
    """Writes values as a JSON-lines file, atomically."""
    write_text(path, "".join(json.dumps(value) + "\n" for value in values))


def write_text(path: str, text: str) -> None:
    r"""Writes a UTF-8 text file, atomically; half a surrogate pair as JSON has it, such as `\ud83d`."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str, content: bytes) -> None:
    """Writes a file, atomically."""
    with write_atomically(path) as incomplete, tf.io.gfile.GFile(incomplete, "wb") as file:
        file.write(content)


def write_picture(path: str, figure: Any) -> None:
    """Writes a figure of Matplotlib as PNG, atomically."""
    content = io.BytesIO()  # Matplotlib itself only writes to local disks
    figure.savefig(content, format="png")
    write_bytes(path, content.getvalue())


def _errors() -> tuple[type[Exception], ...]:
    """Returns what operations on files raise: Python's errors, and `tf.io.gfile`'s."""
    return OSError, tf.errors.OpError


def make_directory(path: str) -> None:
    """Makes a folder and its parents if they are missing."""
    try:
        tf.io.gfile.makedirs(path)
    except _errors() as error:
        raise InputError(f"cannot make the folder '{path}': {reason(error)}") from error


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[str]:
    """Yields a path to write a file or folder to, and renames it to `path` on success.

    After an exception, what was written is removed and `path` is unchanged.
    """
    path = as_path(path)
    incomplete = path.rstrip("/") + INCOMPLETE
    with explain_refusal(path):
        remove(incomplete)
        try:
            yield incomplete
            tf.io.gfile.rename(incomplete, path, overwrite=True)
        finally:
            remove(incomplete)


def write_once(path: str, write: Callable[..., None], *content: Any) -> None:
    """Calls `write(name, *content)`, and renames the file of that name to `path`, unless it exists.

    So another process may be writing the same file, such as a worker that was taken for dead.
    """
    if tf.io.gfile.exists(path):
        return
    own = f"{path}-{uuid.uuid4().hex}{INCOMPLETE}"
    write(own, *content)
    with explain_refusal(path):
        tf.io.gfile.rename(own, path, overwrite=True)


@contextlib.contextmanager
def write_together(paths: Sequence[str]) -> Iterator[str]:
    """Yields a folder to write files in, and moves them on success to `paths`, in this order."""
    folder = paths[-1] + INCOMPLETE
    with explain_refusal(paths[-1]):
        remove(folder)
        try:
            tf.io.gfile.makedirs(folder)
            yield folder
            for path in paths:
                incomplete = os.path.join(folder, os.path.basename(path))
                tf.io.gfile.rename(incomplete, path, overwrite=True)
        finally:
            remove(folder)


@contextlib.contextmanager
def explain_unreadable(path: str) -> Iterator[None]:
    """Turns an error of the file system into an `InputError` that names the file."""
    try:
        yield
    except _errors() as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from error


@contextlib.contextmanager
def explain_refusal(path: str) -> Iterator[None]:
    """Turns an error of the file system into a `StoppedError` that names the file."""
    try:
        yield
    except _errors() as error:
        # What the user named.
        path = path.replace(INCOMPLETE, "")
        raise StoppedError(f"{path}: cannot be written: {reason(error)}") from error


def remove(path: str) -> None:
    """Removes a file, or a folder with its content, if it exists."""
    if tf.io.gfile.isdir(path):
        tf.io.gfile.rmtree(path)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


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
