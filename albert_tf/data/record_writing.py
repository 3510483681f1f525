"""Writing of TFRecord files with NumPy and zlib alone.

Importing TensorFlow, which has a writer of its own, takes longer than writing a gigabyte. A file is a
sequence of frames: the length of a record in 8 bytes, its checksum, the record, and its checksum. The
checksums are masked CRC-32C (https://www.tensorflow.org/tutorials/load_data/tfrecord).
"""

import functools
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import tensorflow as tf

from albert_tf import files

Compression = Literal["none", "gzip"]

# TensorFlow's names.
TFRECORD_TYPES = {"none": "", "gzip": "GZIP"}
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS

# Size of the records that are written together. They take a few times as much memory.
_BATCH_BYTES = 1 << 20
_LENGTH = struct.Struct("<Q")

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, lowest bit first
_MASK = np.uint32(0xA282EAD8)


def write_records(path: str, records: Iterable[bytes], compression: Compression = "none") -> None:
    """Writes records to a TFRecord file, which appears when it is complete.

    Raises:
        StoppedError: the file cannot be written.
    """
    content = _frames(records)
    if compression == "gzip":
        content = _compress(content)
    with files.write_atomically(path) as incomplete, tf.io.gfile.GFile(incomplete, "wb") as file:
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


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Returns the states after 4 more bytes, for each low and each high half of a state.

    A checksum is linear, so the two are combined by XOR.
    """
    halves = np.arange(1 << 16, dtype=np.uint32)
    tables = []
    for states in (halves, halves << np.uint32(16)):
        for _ in range(32):
            carried = np.where(states & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
            states = (states >> np.uint32(1)) ^ carried
        tables.append(states)
    return tables[0], tables[1]


# These 4 bytes change a zero state, which leading zeros keep, to the initial state of a checksum.
_START = struct.pack("<I", 0x641F6454)


def _crc32c(texts: Sequence[bytes]) -> np.ndarray:
    """Returns the CRC-32C of N texts, uint32 (N,). The texts are aligned at their ends."""
    width = -(-(max(map(len, texts)) + len(_START)) // 4) * 4
    joined = b"".join([(_START + text).rjust(width, b"\0") for text in texts])
    words = np.frombuffer(joined, "<u4").reshape(len(texts), -1)
    low, high = _tables()
    states = np.zeros(len(texts), np.uint32)
    for word in np.ascontiguousarray(words.T):
        states ^= word
        halves = states.view(np.uint16)
        states = low.take(halves[::2]) ^ high.take(halves[1::2])
    return ~states
