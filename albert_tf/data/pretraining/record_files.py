"""TFRecord files: counting and checking their records.

A file may be compressed with gzip, as TensorFlow writes it with `TFRecordOptions`.
"""

import itertools
import struct
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.input_files import find_file
from albert_tf.data.records import RecordSpec
from albert_tf.errors import InputError
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress

# What is in front of each record: its length, and a checksum of the length.
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4
_MEGABYTE = 1e6
# Number of records that are checked together.
_GROUP = 256
_NONE: Mapping = types.MappingProxyType({})
# What a file is compressed with, if anything -> TensorFlow's name for it.
_COMPRESSIONS = {"": "", "gzip": "GZIP"}


class RecordFile(NamedTuple):
    """A TFRecord file."""

    path: str
    size: int  # in bytes
    count: int  # type: ignore[assignment]  # of records; takes the place of `tuple.count`


def count_records(
    paths: Sequence[str], spec: RecordSpec, known: Mapping[str, Mapping[str, int]] = _NONE
) -> list[RecordFile]:
    """Returns files with the numbers of their records; see `scan`.

    A file is not read if `known` has its path with the number of its `bytes`, and of its `records`.
    """
    for path in paths:
        files.refuse_pipe(path)
    sizes = [find_file(path).size for path in paths]
    total, counts = sum(sizes) / _MEGABYTE, []
    with Progress("counting records", "MB", total, delay=SECONDS_WITHOUT_PROGRESS) as progress:
        for path, size in zip(paths, sizes, strict=True):
            saved = known.get(path, _NONE)
            counts.append(saved["records"] if saved.get("bytes") == size else scan(path, spec))
            progress.update(size / _MEGABYTE)
    return list(map(RecordFile, paths, sizes, counts))


def scan(path: str, spec: RecordSpec, checks: bool = False) -> int:
    """Returns the number of a file's records.

    Damage is an error and, with `checks`, which take longer, a record that is not `spec`'s.
    """
    count, damage = 0, None
    try:
        for _ in _payloads(path, spec):
            count += 1
    except InputError as error:
        damage = error
    compression = compression_type(path)
    records = tf.data.TFRecordDataset(files.for_tensorflow(path), compression).take(count)
    done = 0
    # The group with a wrong checksum is lost; then the records before it are read one by one.
    for size in (_GROUP, 1):
        try:
            for group in records.skip(done).batch(size).as_numpy_iterator():
                if checks:
                    spec.check(group.tolist(), path, done + 1)
                done += len(group)
            break
        except tf.errors.DataLossError:
            damage = _damaged(path, done + 1)
    if damage:
        raise damage
    if not done:
        raise InputError(f"{path}: holds no records")
    return done


def _damaged(path: str, number: int, damage: str = "damaged or cut short") -> InputError:
    """Returns the error for a file that cannot be read from a record on."""
    other = files.describe_file(path) if number == 1 else ""
    if other and not files.compression_of(path):
        return InputError(f"{path}: begins like {other}; expected a TFRecord file")
    return InputError(f"{path}, record {number}: {damage}; expected a complete TFRecord file")


def compression_type(path: str) -> str:
    """Returns TensorFlow's name for what a file is compressed with; nothing for a plain one."""
    name = files.compression_of(path)
    if name not in _COMPRESSIONS:
        raise InputError(
            f"{path}: begins like a file of {name}; expected a TFRecord file, plain or compressed "
            "with gzip"
        )
    return _COMPRESSIONS[name]


def first_record(path: str, spec: RecordSpec) -> bytes:
    """Returns the first record of a file, none larger than `spec`'s; nothing if there is none."""
    return next(_payloads(path, spec), b"")


def _payloads(path: str, spec: RecordSpec) -> Iterator[bytes]:
    """Yields the records of a file by their lengths, without a look at their checksums.

    TensorFlow believes any length that has a valid checksum, and reads that much into memory, also of
    records that are not asked for yet.
    """
    files.refuse_pipe(path)
    compression_type(path)
    content = _Content(files.read_content(path))
    for number in itertools.count(1):
        if not (header := content.read(_HEADER.size)):
            return
        if len(header) < _HEADER.size:
            raise _damaged(path, number)
        length, _ = _HEADER.unpack(header)
        if length > spec.max_bytes:
            too_large = f"{length} bytes, at most {spec.max_bytes} expected"
            raise _damaged(path, number, f"damaged or too large: {too_large}")
        rest = content.read(length + _CHECKSUM_BYTES)
        if len(rest) < length + _CHECKSUM_BYTES:
            raise _damaged(path, number)
        yield rest[:length]


class _Content:
    """The content of a file, given in parts, of which any number of bytes can be read."""

    def __init__(self, parts: Iterator[bytes]):
        self._parts = parts
        self._rest = bytearray()

    def read(self, count: int) -> bytes:
        """Returns the next bytes, fewer at the end."""
        while len(self._rest) < count and (part := next(self._parts, b"")):
            self._rest += part
        read = bytes(self._rest[:count])
        del self._rest[:count]
        return read
