"""Shuffles more records than fit in memory: an external sort by random keys.

The first pass collects records up to a bounded size, sorts them, and writes them as a *run*. The second
pass merges any range of ranks from the runs, so equal shards can be made in parallel: shard i of N has
the records of ranks i T / N to (i + 1) T / N of all T. The order depends on keys and records only, not
on the division into runs.

A run begins with an index of where the records of each *bin* begin, one of 4,096 equal parts of the range
of keys. So the second pass reads the part of a run that it needs at once, and never holds a list of keys.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files

# Memory for records: size of a run, and approximately what is sorted at once in the second pass.
_MAX_BYTES = 1 << 25

KEY_BITS = 64
_BIN_BITS = 12
_BINS = 1 << _BIN_BITS

_INDEX_TYPE = np.dtype("<u8")
_INDEX_BYTES = (_BINS + 1) * _INDEX_TYPE.itemsize
_HEADER = struct.Struct("<QI")  # key, length of the record

# A random 64-bit key and a record. Records with equal keys are ordered by their bytes.
KeyedRecord = tuple[int, bytes]


class BinSizes(NamedTuple):
    """The sizes of the bins of some runs, in total.

    Attributes:
        records: numbers of records, int64 (4096,).
        bytes: numbers of bytes including headers, int64 (4096,).
    """

    records: np.ndarray
    bytes: np.ndarray

    @classmethod
    def zeros(cls) -> "BinSizes":
        """Returns the sizes of empty bins."""
        return cls(np.zeros(_BINS, np.int64), np.zeros(_BINS, np.int64))

    def __add__(self, other: "BinSizes") -> "BinSizes":
        return BinSizes(self.records + other.records, self.bytes + other.bytes)


class RunWriter:
    """Collects records and writes them as sorted runs.

    Args:
        prefix: prefix of the paths: `<prefix>-0.run` and so on.

    Attributes:
        paths: runs written so far.
        sizes: sizes of their bins.
    """

    def __init__(self, prefix: str):
        self.paths: list[str] = []
        self.sizes = BinSizes.zeros()
        self._prefix = prefix
        self._records: list[KeyedRecord] = []
        self._bytes = 0

    def add(self, key: int, record: bytes) -> None:
        """Adds a record, and writes a run if it is full."""
        self._records.append((key, record))
        self._bytes += _HEADER.size + len(record)
        if self._bytes >= _MAX_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes the records since the last run, if there are any."""
        if not self._records:
            return
        path = f"{self._prefix}-{len(self.paths)}.run"
        self._records.sort()
        sizes = _measure(self._records)
        offsets = np.concatenate([[0], np.cumsum(sizes.bytes)]) + _INDEX_BYTES
        with (
            files.write_atomically(path) as incomplete,
            tf.io.gfile.GFile(incomplete, "wb") as file,
        ):
            file.write(offsets.astype(_INDEX_TYPE).tobytes())
            for key, record in self._records:
                file.write(_HEADER.pack(key, len(record)) + record)
        self.paths.append(path)
        self.sizes += sizes
        self._records, self._bytes = [], 0


def _measure(records: Sequence[KeyedRecord]) -> BinSizes:
    bins = [key >> (KEY_BITS - _BIN_BITS) for key, _ in records]
    lengths = [_HEADER.size + len(record) for _, record in records]
    return BinSizes(
        np.bincount(bins, minlength=_BINS),
        np.bincount(bins, lengths, minlength=_BINS).astype(np.int64),
    )


def read_sorted(paths: Sequence[str], sizes: BinSizes, first: int, last: int) -> Iterator[bytes]:
    """Yields the records of ranks `first` to `last - 1` in the order of the keys.

    `sizes` are those of the bins of all runs.
    """
    ends = np.cumsum(sizes.records)
    rank = 0
    for first_bin, last_bin in _group_bins(sizes):
        group_end = int(ends[last_bin - 1])
        if first < group_end and rank < last:
            for record in _sort_bins(paths, sizes, first_bin, last_bin):
                if first <= rank < last:
                    yield record
                rank += 1
        rank = group_end


def _group_bins(sizes: BinSizes) -> Iterator[tuple[int, int]]:
    """Yields (first bin, bin after the last) of groups of bins that fit in memory."""
    first, total = 0, 0
    for bin_, length in enumerate(sizes.bytes.tolist()):
        if bin_ > first and total + length > _MAX_BYTES:
            yield first, bin_
            first, total = bin_, 0
        total += length
    yield first, _BINS


def _sort_bins(
    paths: Sequence[str], sizes: BinSizes, first_bin: int, last_bin: int
) -> Iterator[bytes]:
    """Yields the records of some bins, sorted.

    A bin of a huge corpus may not fit in memory. It is read several times, for a part of its keys each
    time.
    """
    parts = max(1, -(-int(sizes.bytes[first_bin:last_bin].sum()) // _MAX_BYTES))
    begin = first_bin << (KEY_BITS - _BIN_BITS)
    length = (last_bin - first_bin) << (KEY_BITS - _BIN_BITS)
    for part in range(parts):
        low, high = begin + length * part // parts, begin + length * (part + 1) // parts
        records = [
            (key, record)
            for path in paths
            for key, record in _read_bins(path, first_bin, last_bin)
            if low <= key < high
        ]
        records.sort()
        yield from (record for _, record in records)


def _read_bins(path: str, first_bin: int, last_bin: int) -> Iterator[KeyedRecord]:
    with files.explain_unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        file.seek(first_bin * _INDEX_TYPE.itemsize)
        index = file.read((last_bin - first_bin + 1) * _INDEX_TYPE.itemsize)
        begin, *_, end = np.frombuffer(index, _INDEX_TYPE).tolist()
        file.seek(begin)
        data = file.read(end - begin)
    place = 0
    while place < len(data):
        key, length = _HEADER.unpack_from(data, place)
        place += _HEADER.size + length
        yield key, data[place - length : place]
