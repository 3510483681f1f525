"""Writing of TFRecord files, by NumPy and zlib alone.

TensorFlow has a writer of its own; importing it takes longer than writing a gigabyte. A file is a row of
frames: the length of a record in 8 bytes, its checksum, the record, and its checksum. They are
CRC-32C, with some bits moved so that a record may hold checksums itself
(https://www.tensorflow.org/tutorials/load_data/tfrecord).
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from albert_tf import files, gfile

Compression = Literal["none", "gzip"]

# What TensorFlow calls them.
TFRECORD_TYPES = {"none": "", "gzip": "GZIP"}
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS

# Their bytes take this much memory, a few times over, unless one record alone has more.
_BATCH_BYTES = 1 << 20
_LENGTH = struct.Struct("<Q")

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, lowest bit first
_MASK = np.uint32(0xA282EAD8)


def write_records(path: str, records: Iterable[bytes], compression: Compression = "none") -> None:
    """Writes records to a TFRecord file, which appears when it is complete.

    Raises:
        StoppedError: the file system refuses.
    """
    content = _frames(records)
    if compression == "gzip":
        content = _compress(content)
    with files.write_atomically(path) as incomplete, gfile.GFile(incomplete, "wb") as file:
        for part in content:
            file.write(part)


def _frames(records: Iterable[bytes]) -> Iterator[bytes]:
    for batch in _batches(records):
        lengths = [_LENGTH.pack(len(record)) for record in batch]
        checksums = zip(_masked_checksums(lengths), _masked_checksums(batch), strict=True)
        frames = zip(lengths, batch, checksums, strict=True)
        yield b"".join(
            part
            for length, record, (of_length, of_record) in frames
            for part in (length, of_length, record, of_record)
        )


def _batches(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch, size = [], 0
    for record in records:
        batch.append(record)
        size += len(record)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _compress(content: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
    for part in content:
        yield compressor.compress(part)
    yield compressor.flush()


def _masked_checksums(texts: Sequence[bytes]) -> list[bytes]:
    checksums = _crc32c(texts)
    masked = (checksums >> np.uint32(15) | checksums << np.uint32(17)) + _MASK
    joined = masked.astype("<u4").tobytes()
    return [joined[place : place + 4] for place in range(0, len(joined), 4)]


def _advance(states: np.ndarray, steps: int) -> np.ndarray:
    """Moves checksums on by some bits that are zero."""
    for _ in range(steps):
        states = (states >> np.uint32(1)) ^ np.where(
            states & 1, np.uint32(_POLYNOMIAL), np.uint32(0)
        )
    return states


# What the two halves of a state become when 4 bytes follow. A checksum is linear: they are joined by XOR.
_LOW = _advance(np.arange(1 << 16, dtype=np.uint32), 32)
_HIGH = _advance(np.arange(1 << 16, dtype=np.uint32) << np.uint32(16), 32)
# These 4 bytes move a state of zeros, which zeros leave as it is, to the one that a checksum begins with.
_START = struct.pack("<I", 0x641F6454)


def _crc32c(texts: Sequence[bytes]) -> np.ndarray:
    """Returns the CRC-32C of N texts, uint32 (N,), aligned at their ends."""
    width = -(-(max(map(len, texts)) + len(_START)) // 4) * 4
    joined = b"".join([(_START + text).rjust(width, b"\0") for text in texts])
    words = np.frombuffer(joined, "<u4").reshape(len(texts), -1)
    states = np.zeros(len(texts), np.uint32)
    for word in np.ascontiguousarray(words.T):
        states ^= word
        halves = states.view(np.uint16)
        states = _LOW.take(halves[::2]) ^ _HIGH.take(halves[1::2])
    return ~states
