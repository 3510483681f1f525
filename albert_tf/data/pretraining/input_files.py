"""The files of a corpus: found, checked for changes, and read once, decompressed.

Files are read as streams, so memory depends neither on their size nor on their compression ratio.
"""

import contextlib
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError, StoppedError
from albert_tf.lazy import LazyModule

tf = LazyModule("tensorflow")

_SHARD_NUMBER = re.compile(r"-\d{5}-of-\d{5}$")

# A compressed byte can stand for 1 KiB (gzip) or 32 KiB (Zstandard), so this becomes at most 16 MiB.
_COMPRESSED_BYTES = 512
_PART_BYTES = 1 << 20


class InputFile(NamedTuple):
    """A file, as it is now."""

    path: str
    size: int  # in bytes
    modified: int  # time of the last change, nanoseconds since 1970


def find_files(patterns: Sequence[str]) -> list[InputFile]:
    """Returns the files that match, sorted within each pattern, each file once.

    A pattern may be a file, a glob, or a folder: all files below it but hidden and unfinished ones.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if tf.io.gfile.isdir(pattern):
            matches = _files_below(pattern)
            if not matches:
                raise InputError(f"the folder '{pattern}' holds no file")
        else:
            matches = files.expand_globs([pattern])
        found.update(dict.fromkeys(matches))
    return [find_file(path) for path in found]


def find_file(path: str) -> InputFile:
    """Returns a file with its size and time."""
    files.refuse_folder(path)
    with files.explain_unreadable(path):
        stat = tf.io.gfile.stat(path)
    return InputFile(path, stat.length, stat.mtime_nsec)


def _files_below(folder: str) -> list[str]:
    found: list[str] = []
    entered: set[str] = set()
    for parent, folders, names in tf.io.gfile.walk(folder):
        real = os.path.realpath(parent)
        if real in entered:  # a symbolic link, perhaps to a folder above
            folders.clear()
            continue
        entered.add(real)
        # The order decides under which name a folder that has several is entered.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(parent, name) for name in names if not name.startswith(".")]
    # The run that resumes a stopped one finds its work, if the output is below the folder.
    return sorted(path for path in found if files.INCOMPLETE not in path[len(folder) :])


@contextlib.contextmanager
def expect_unchanged(inputs: Sequence[InputFile]) -> Iterator[None]:
    """Checks after the block, and after an `InputError` in it, that the files have not changed."""
    fault = None
    try:
        yield
    except InputError as error:
        fault = error
    for file in inputs:
        if not tf.io.gfile.exists(file.path) or find_file(file.path) != file:
            raise StoppedError(f"{file.path}: changed while it was read") from fault
    if fault is not None:
        raise fault


def name_files(paths: Sequence[str]) -> str:
    """Returns a short name for some files, for messages."""
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def _gzip(path: str) -> tuple[Callable[[], Any], type[Exception]]:
    return lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), zlib.error


def _zstandard(path: str) -> tuple[Callable[[], Any], type[Exception]]:
    try:
        import zstandard
    except ImportError as error:
        raise InputError(
            f"{path}: reading it needs the package zstandard: pip install zstandard"
        ) from error
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


# Suffix -> what makes a decompressor of one stream, and its error. The libraries' stream readers are not
# used: Zstandard's takes a truncated file for a complete one.
_COMPRESSIONS = {".gz": _gzip, ".zst": _zstandard}

# Suffixes of files with an object of JSON in each line, or with one list of them.
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")


def suffix_of(path: str) -> str:
    """Returns the suffix of a path in lower case, without that of a compressed file."""
    stem, suffix = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if suffix in _COMPRESSIONS else suffix


def decompress(parts: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yields the content of a file, decompressed if it is `.gz` or `.zst`, of one stream or several."""
    suffix = os.path.splitext(path)[1]
    if suffix not in _COMPRESSIONS:
        yield from parts
        return
    make_decompressor, failure = _COMPRESSIONS[suffix](path)
    decompressor = None  # between two streams
    for compressed in _split(parts, _COMPRESSED_BYTES):
        while compressed:
            decompressor = decompressor or make_decompressor()
            try:
                content = decompressor.decompress(compressed)
            except failure as error:
                raise InputError(f"{path}: is damaged, or no {suffix} file: {error}") from error
            yield from _split([content], _PART_BYTES)
            compressed = b""
            if decompressor.eof:
                compressed, decompressor = decompressor.unused_data, None
    if decompressor:
        raise InputError(f"{path}: is cut short; expected a complete {suffix} file")


def _split(parts: Iterable[bytes], size: int) -> Iterator[bytes]:
    for part in parts:
        for start in range(0, len(part), size):
            yield part[start : start + size]


def stats_file_of(path: str) -> str:
    """Returns the path of the stats file next to a record file or its shards."""
    stem, _ = os.path.splitext(path)
    return _SHARD_NUMBER.sub("", stem) + ".stats.json"
