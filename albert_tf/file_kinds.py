"""What a file is, told by its first bytes, whatever its name says.

A compressed file is decompressed as a stream, so memory depends neither on its size nor on its
compression ratio. A file that is no text is refused by its name, and so are archives, which hold several
files, and the pointers that git-lfs leaves in the place of large files.
"""

import bz2
import itertools
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from albert_tf.errors import InputError, name_place
from albert_tf.extras import check_extra

# Enough for the header of a tar archive, the longest that is looked at.
_HEAD_BYTES = tarfile.BLOCKSIZE
# Of a compressed file at a time. A byte can stand for 1 KiB (gzip) or 32 KiB (Zstandard).
_COMPRESSED_BYTES = 512
_PART_BYTES = 1 << 20
# The widest window of `zstd --long=31`. Only a file that says that it needs as much takes it.
_MAX_ZSTANDARD_WINDOW = 1 << 31
_POINTER = b"version https://git-lfs.github.com/spec/"
# Share of NUL and other control characters at the start of a file, from which on it is no text.
_BINARY_SHARE = 0.1
_CONTROL = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")


class _Compression(NamedTuple):
    """A format of one compressed file; several streams may follow each other."""

    name: str
    suffix: str
    start: bytes  # regular expression of its first bytes
    open: Callable[[str], tuple[Callable[[], Any], tuple[type[Exception], ...]]]


def _gzip(path: str) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    return lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), (zlib.error,)


def _zstandard(path: str) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    with name_place(path):
        check_extra("zstd", "zstandard")
    import zstandard

    def decompressor() -> Any:
        return zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTANDARD_WINDOW).decompressobj()

    return decompressor, (zstandard.ZstdError,)


def _bzip2(path: str) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    return bz2.BZ2Decompressor, (OSError,)


def _xz(path: str) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    return lzma.LZMADecompressor, (lzma.LZMAError,)


# `open` returns what makes a decompressor of one stream, and its errors. The libraries' stream readers
# are not used: Zstandard's takes a truncated file for a complete one.
_COMPRESSIONS = (
    _Compression("gzip", ".gz", rb"\x1f\x8b\x08", _gzip),
    # Some writers put frames to be skipped before the first one.
    _Compression("Zstandard", ".zst", rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", _zstandard),
    _Compression("bzip2", ".bz2", rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", _bzip2),
    _Compression("xz", ".xz", rb"\xfd7zXZ\x00", _xz),
)
COMPRESSED_SUFFIXES = tuple(compression.suffix for compression in _COMPRESSIONS)

_ZIP = "a zip archive or a document of an office program"
_UNPACK = "unpack it, and name its files"
_CONVERT = "convert it, e.g. with iconv"
_EXTRACT = "write its text to a file"
# Characters that no text has right after the letters that some formats begin with.
_NO_TEXT = rb"[\x00-\x08\x0e-\x1f]"
PARQUET_START = rb"PAR1" + _NO_TEXT
# First bytes of files that are no text, as a regular expression -> what they are, and what to do.
_OTHERS = {
    rb"PK(\x03\x04|\x05\x06)": (_ZIP, _UNPACK),
    rb"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    rb"Rar!\x1a\x07": ("a RAR archive", _UNPACK),
    rb"!<arch>\n": ("an archive of ar or a Debian package", _UNPACK),
    rb"0707(01|02|07)[0-9A-Fa-f]{48}": ("a cpio archive", _UNPACK),
    rb"\x04\x22\x4d\x18": ("a file of lz4", "decompress it"),
    rb"\x1f[\x9d\xa0]": ("a file of compress", "decompress it"),
    rb"LZIP\x01": ("a file of lzip", "decompress it"),
    rb"\x5d\x00\x00[\x00-\xff]{2}": ("a file of lzma", "decompress it"),
    PARQUET_START: ("a Parquet file", ""),
    rb"(ARROW1|FEA1)\x00": ("an Arrow or Feather file", ""),
    # Its first column may begin with any byte.
    rb"(?s)ORC.{0,99}" + _NO_TEXT: ("an ORC file", ""),
    rb"Obj\x01": ("an Avro file", ""),
    rb"\x89HDF": ("an HDF5 file", ""),
    rb"\x93NUMPY": ("an array of NumPy", ""),
    rb"\x80[\x02-\x05]": ("a pickle of Python", ""),
    rb"SQLite format 3\x00": ("an SQLite database", ""),
    rb"(?s).{5}\x00{3}\{\"": ("a safetensors file", ""),
    rb"%PDF-": ("a PDF document", _EXTRACT),
    rb"%!PS": ("a PostScript document", _EXTRACT),
    rb"\{\\rtf": ("a document in the Rich Text Format", _EXTRACT),
    rb"\xd0\xcf\x11\xe0": ("a document of an old office program", _EXTRACT),
    rb"WARC/[0-9]": ("a web archive", _EXTRACT),
    rb"\x89PNG|\xff\xd8\xff|GIF8[79]a": ("a picture", ""),
    rb"\x7fELF|MZ\x90\x00": ("a program", ""),
    rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff": ("UTF-32 text", _CONVERT),
    rb"\xff\xfe|\xfe\xff": ("UTF-16 text", _CONVERT),
}


def refuse_pointer(head: bytes, path: str) -> None:
    """Raises `InputError` for the first bytes of a git-lfs pointer."""
    if head.startswith(_POINTER):
        raise InputError(
            f"{path}: a pointer of git-lfs, not the file itself; `git lfs pull` in its repository "
            "downloads it"
        )


def refuse_archive(head: bytes, path: str) -> None:
    """Raises `InputError` for the first bytes of an archive where a model is expected."""
    refuse_pointer(head, path)
    compression = _compression_of(head)
    what, advice = _other(head)
    # Keras's and PyTorch's models are zip archives, too.
    if compression or (advice == _UNPACK and what != _ZIP):
        what = f"a file of {compression.name}" if compression else what
        raise InputError(
            f"{path}: begins like {what}; unpack it, and name the folder or file in it"
        )


def refuse_binary(head: bytes, place: str) -> None:
    """Raises `InputError` for the first bytes of a file that is no text."""
    refuse_pointer(head, place)
    what, advice = describe(head), _other(head)[1]
    if what:
        raise InputError(
            f"{place}: begins like {what}; expected UTF-8 text" + (f": {advice}" if advice else "")
        )


def compression_name(head: bytes) -> str:
    """Returns the compression of a file that begins like this, such as `gzip`; nothing of others."""
    found = _compression_of(head)
    return found.name if found else ""


def describe(head: bytes) -> str:
    """Returns what a file that begins like this is, with an article; nothing of text."""
    if compression := _compression_of(head):
        return f"a file of {compression.name}"
    if what := _other(head)[0]:
        return what
    head = head[:_HEAD_BYTES]
    count = len(_CONTROL.findall(head))
    return "a binary file" if count > 8 and count > _BINARY_SHARE * len(head) else ""


def _other(head: bytes) -> tuple[str, str]:
    for start, described in _OTHERS.items():
        if re.match(start, head):
            return described
    try:
        # Checks the sum that all tar archives have, also those without the word `ustar`.
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return "", ""
    return "a tar archive", _UNPACK


def _compression_of(head: bytes) -> _Compression | None:
    return next((kind for kind in _COMPRESSIONS if re.match(kind.start, head)), None)


def decompress(parts: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yields the content of a file, decompressed if it begins like a compressed one.

    Args:
        parts: the content in parts. The first one decides: it is the whole file, or longer than what
            formats begin with.
        path: for messages. A name that ends like that of a compressed file, of another content, is an
            error, too.
    """
    parts = filter(None, parts)
    head = next(parts, b"")
    parts = itertools.chain([head], parts)
    found = _compression_of(head)
    suffix = next(filter(path.lower().endswith, COMPRESSED_SUFFIXES), None)
    if found is None and (suffix is None or not head):
        yield from filter(None, parts)
        return
    if found is None:
        raise InputError(f"{path}: is damaged, or no {suffix} file: begins otherwise")
    content = _decompress(parts, path, found)
    head = b""
    for part in content:
        head += part
        if len(head) >= _HEAD_BYTES:
            break
    if inner := _compression_of(head):
        raise InputError(
            f"{path}: holds {inner.name} within {found.name}; expected one compression: decompress it"
        )
    yield from filter(None, itertools.chain([head], content))


def _decompress(parts: Iterable[bytes], path: str, found: _Compression) -> Iterator[bytes]:
    make_decompressor, failures = found.open(path)
    decompressor = None  # between two streams
    for compressed in _split(parts, _COMPRESSED_BYTES):
        while compressed:
            if decompressor is None:
                # Tapes and block devices fill up with zeros.
                compressed = compressed.lstrip(b"\0")
                if not compressed:
                    break
                decompressor = make_decompressor()
            try:
                content = decompressor.decompress(compressed)
            except failures as error:
                raise InputError(
                    f"{path}: is damaged, or no {found.suffix} file: {error}"
                ) from error
            yield from _split([content], _PART_BYTES)
            compressed = b""
            if decompressor.eof:
                compressed, decompressor = decompressor.unused_data, None
    if decompressor:
        raise InputError(f"{path}: is cut short; expected a complete {found.suffix} file")


def _split(parts: Iterable[bytes], size: int) -> Iterator[bytes]:
    for part in parts:
        for start in range(0, len(part), size):
            yield part[start : start + size]
