"""Reading and writing of files, on local disks and all file systems of `tf.io.gfile`.

A file that cannot be read or is not as expected raises `InputError`, one that cannot be written
`StoppedError`. Both name the file, and the line where there is one. What a file is, its first bytes say
(`file_kinds`); it is written under another name until it is complete (`unfinished`).
"""

import hashlib
import io
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from albert_tf import file_systems
from albert_tf.errors import InputError, warn
from albert_tf.file_kinds import (
    compression_name,
    decompress,
    describe,
    refuse_archive,
    refuse_binary,
    refuse_pointer,
)

# The other modules reach the file systems through this one.
from albert_tf.file_systems import as_path as as_path
from albert_tf.file_systems import escape as escape
from albert_tf.file_systems import exists as exists
from albert_tf.file_systems import explain_unreadable as explain_unreadable
from albert_tf.file_systems import for_tensorflow as for_tensorflow
from albert_tf.file_systems import is_folder as is_folder
from albert_tf.file_systems import list_names as list_names
from albert_tf.file_systems import make_folders as make_folders
from albert_tf.file_systems import matches as matches
from albert_tf.file_systems import open_file as open_file
from albert_tf.file_systems import reason as reason
from albert_tf.file_systems import refuse_for_tensorflow as refuse_for_tensorflow
from albert_tf.file_systems import refuse_other_than_utf8 as refuse_other_than_utf8
from albert_tf.file_systems import remove as remove
from albert_tf.file_systems import rename as rename
from albert_tf.file_systems import walk as walk
from albert_tf.pipes import readable
from albert_tf.pipes import refuse_pipe as refuse_pipe
from albert_tf.unfinished import INCOMPLETE as INCOMPLETE
from albert_tf.unfinished import explain_refusal as explain_refusal
from albert_tf.unfinished import remove_unfinished as remove_unfinished
from albert_tf.unfinished import write_atomically as write_atomically
from albert_tf.unfinished import write_once as write_once
from albert_tf.unfinished import write_together as write_together

_CHUNK_BYTES = 1 << 20
# A binary file might be a single line and fill the memory.
_MAX_LINE_BYTES = 1 << 26
# Of the first bytes of a file, by which it is told what it is.
_HEAD_BYTES = 1024


def expand_globs(patterns: Sequence[str]) -> list[str]:
    """Returns the files that match, sorted within each pattern, each file once.

    Unfinished ones are left out, unless the pattern is the name of one.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if is_folder(pattern):
            raise InputError(f"'{pattern}' is a folder; expected files, e.g. '{pattern}/*'")
        # A file's own name may hold the characters of patterns, as in `text[1].txt`.
        if exists(pattern):
            found[pattern] = None
            continue
        names = file_systems.find(pattern)
        whole = [name for name in names if not name.endswith(INCOMPLETE) and not is_folder(name)]
        if not whole:
            raise InputError(f"no file matches '{pattern}'")
        found.update(dict.fromkeys(whole))
    return list(found)


def status(path: str) -> file_systems.Status:
    """Returns the size and time of a file."""
    refuse_folder(path)
    with explain_unreadable(path):
        return file_systems.status(readable(path))


def read_bytes(path: str) -> bytes:
    """Returns the content of a file."""
    return b"".join(read_chunks(path))


def read_chunks(path: str) -> Iterator[bytes]:
    """Yields the content of a file in chunks of a megabyte. A pointer of git-lfs is refused."""
    path = as_path(path)
    refuse_folder(path)
    with explain_unreadable(path), open_file(readable(path), "rb") as file:
        chunk = file.read(_CHUNK_BYTES)
        refuse_pointer(chunk, path)
        while chunk:
            yield chunk
            chunk = file.read(_CHUNK_BYTES)


def read_content(path: str) -> Iterator[bytes]:
    """Yields the content of a file in chunks, decompressed if it is compressed."""
    return decompress(read_chunks(path), path)


def read_head(path: str) -> bytes:
    """Returns the first bytes of a file."""
    return next(read_chunks(path), b"")[:_HEAD_BYTES]


def compression_of(path: str) -> str:
    """Returns what a file is compressed with by its first bytes, e.g. `gzip`; nothing of others."""
    return compression_name(read_head(path))


def describe_file(path: str) -> str:
    """Returns what a file is by its first bytes, e.g. `a file of gzip`; nothing of text and others."""
    return describe(read_head(path))


def refuse_packed(path: str) -> None:
    """Raises `InputError` for a pipe, an archive, a compressed file or a pointer of git-lfs."""
    refuse_pipe(path)
    if exists(path) and not is_folder(path):
        refuse_archive(read_head(path), path)


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
    return decode_lines(read_content(path), path, decode_strictly)


def decode_lines(
    chunks: Iterable[bytes], path: str, decode: Callable[[bytes, str], str]
) -> Iterator[tuple[int, str]]:
    """Yields the lines of chunks of bytes like `read_lines`.

    `decode` returns the text of a line, given its bytes and its place. Content that begins like that of
    a file that is no text is refused.
    """
    chunks = iter(chunks)
    first = next(chunks, b"")
    refuse_binary(first[:_HEAD_BYTES], f"{path}, line 1")
    yield from _decode_lines(itertools.chain([first], chunks), path, decode)


def _decode_lines(
    chunks: Iterable[bytes], path: str, decode: Callable[[bytes, str], str]
) -> Iterator[tuple[int, str]]:
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
    if is_folder(path):
        raise InputError(f"{path}: a folder; expected a file")


def decode_strictly(line: bytes, place: str) -> str:
    """Returns the text of a line."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place}: byte {error.start + 1} is 0x{line[error.start]:02x}, "
            "which is not UTF-8; convert the file, e.g. with iconv"
        ) from error


def read_json(path: str, expected: str = "") -> Any:
    """Returns the value in a JSON file; `expected` is its layout, as text for messages."""
    content = b"".join(read_content(path))
    if not content.startswith((b"\xff\xfe", b"\xfe\xff")):  # JSON in UTF-16 is read
        refuse_binary(content[:_HEAD_BYTES], f"{path}, line 1")
    return parse_json(content, path, expected=expected)


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
    if not exists(path):
        return []
    values = []
    for number, line in _decode_lines(
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
    with write_atomically(path) as incomplete, open_file(incomplete, "wb") as file:
        file.write(content)


def write_picture(path: str, figure: Any) -> None:
    """Writes a figure of Matplotlib as PNG, atomically."""
    content = io.BytesIO()  # Matplotlib itself only writes to local disks
    figure.savefig(content, format="png")
    write_bytes(path, content.getvalue())


def make_directory(path: str) -> None:
    """Makes a folder and its parents if they are missing."""
    try:
        make_folders(path)
    except file_systems.errors() as error:
        raise InputError(f"cannot make the folder '{path}': {reason(error)}") from error
