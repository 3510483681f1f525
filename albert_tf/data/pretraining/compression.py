"""Compressed text: gzip and Zstandard, recognised by the name of the file, read as a stream."""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from albert_tf.errors import InputError

# A few bytes can stand for very many, so little is decompressed at a time. A byte becomes at most 32 KiB
# (Zstandard) or 1 KiB (gzip), so these become at most 16 MiB.
_COMPRESSED_BYTES = 512
_CHUNK_BYTES = 1 << 20


class _Compression(NamedTuple):
    """How a kind of compressed file is read: a decompressor of one stream, and what it raises."""

    make_decompressor: Callable[[], Any]
    error: type[Exception]


def _gzip(path: str) -> _Compression:
    return _Compression(lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), zlib.error)


def _zstandard(path: str) -> _Compression:
    try:
        import zstandard
    except ImportError as error:
        raise InputError(
            f"{path}: reading it needs the package zstandard: pip install zstandard"
        ) from error
    return _Compression(lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError)


_COMPRESSIONS = {".gz": _gzip, ".zst": _zstandard}


def decompress(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yields the content of a file, which is compressed where its name ends in `.gz` or `.zst`.

    Memory does not depend on the compression ratio: what is yielded has at most a megabyte, or is one of
    `chunks`.

    Args:
        chunks: the bytes of the file; one stream, or several in a row.
        path: its name.

    Raises:
        InputError: it is damaged or cut short, or the package that reads it is not installed.
    """
    if _suffix(path) not in _COMPRESSIONS:
        yield from chunks
        return
    compression = _COMPRESSIONS[_suffix(path)](path)
    decompressor = None  # between two streams
    for compressed in _cut(chunks, _COMPRESSED_BYTES):
        while compressed:
            decompressor = decompressor or compression.make_decompressor()
            try:
                content = decompressor.decompress(compressed)
            except compression.error as error:
                raise InputError(
                    f"{path}: is damaged, or no {_suffix(path)} file: {error}"
                ) from error
            yield from _cut([content], _CHUNK_BYTES)
            compressed = b""
            if decompressor.eof:
                compressed, decompressor = decompressor.unused_data, None
    if decompressor:
        raise InputError(f"{path}: is cut short; expected a complete {_suffix(path)} file")


def _cut(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yields the chunks in parts of at most `size` bytes."""
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size]


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1]
