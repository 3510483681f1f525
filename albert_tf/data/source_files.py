"""What the names of files of texts say: their formats, and how they are compressed.

Files are read as streams, so memory depends neither on their size nor on their compression ratio.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from albert_tf.errors import InputError, name_place
from albert_tf.extras import check_extra

# Suffixes of files with an object of JSON in each line, or with one list of them.
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")

# A compressed byte can stand for 1 KiB (gzip) or 32 KiB (Zstandard), so this becomes at most 16 MiB.
_COMPRESSED_BYTES = 512
_PART_BYTES = 1 << 20


def _gzip(path: str) -> tuple[Callable[[], Any], type[Exception]]:
    return lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), zlib.error


def _zstandard(path: str) -> tuple[Callable[[], Any], type[Exception]]:
    with name_place(path):
        check_extra("zstd", "zstandard")
    import zstandard

    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


# Suffix -> what makes a decompressor of one stream, and its error. The libraries' stream readers are not
# used: Zstandard's takes a truncated file for a complete one.
_COMPRESSIONS = {".gz": _gzip, ".zst": _zstandard}


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
