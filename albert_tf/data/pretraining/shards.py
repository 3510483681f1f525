"""Makes pre-training data in two passes of parallel workers, with memory independent of the corpus.

It is an external sort by random keys. The first pass makes the instances, chunk by chunk, collects their
records up to a bounded size, sorts them, and writes them as a *run*. The second pass merges the runs into
shards: shard i of N has the records of ranks i T / N to (i + 1) T / N of all T. The order depends on keys
and records only, not on the division into runs.

A run begins with an index of where the records of each *bin* begin, one of 4,096 equal parts of the range
of keys. So the second pass reads the part of a run that it needs at once, and holds 32 MB of records or,
of more than 128 GB, one bin.

A stopped run resumes: complete chunks and shards are not made again. The report of a chunk says what the
chunk was made from, so it stays valid even if other parts of the input, or options that don't affect it,
have changed.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.corpus import Chunk
from albert_tf.data.pretraining.input_files import InputFile, expect_unchanged
from albert_tf.data.pretraining.instances import (
    KEY_BITS,
    ChunkMaker,
    KeyedRecord,
    MadeData,
    PretrainingDataConfig,
    PretrainingDataStats,
)
from albert_tf.data.records import write_records
from albert_tf.data.workers import run_tasks
from albert_tf.progress import Progress
from albert_tf.tokenization import Tokenizer

_MEGABYTE = 1e6
# Starting a process takes longer than the work on fewer bytes of text, in all copies, or of records.
_TEXT_BYTES_PER_WORKER = 1 << 25
_RECORD_BYTES_PER_WORKER = 1 << 28

# Memory for records: size of a run, and approximately what is sorted at once in the second pass.
_MAX_BYTES = 1 << 25

_BIN_BITS = 12
_BINS = 1 << _BIN_BITS
_INDEX_TYPE = np.dtype("<u8")
_INDEX_BYTES = (_BINS + 1) * _INDEX_TYPE.itemsize
_HEADER = struct.Struct("<QI")  # key, length of the record


def _no_sizes() -> np.ndarray:
    return np.zeros((2, _BINS), np.int64)


@dataclasses.dataclass
class Runs:
    """The result of the first pass."""

    paths: list[str] = dataclasses.field(default_factory=list)
    # Numbers of records, and of bytes with headers, in the bins of all runs, int64 (2, 4096).
    sizes: np.ndarray = dataclasses.field(default_factory=_no_sizes)
    stats: PretrainingDataStats = dataclasses.field(default_factory=PretrainingDataStats)

    def add(self, other: "Runs") -> None:
        """Adds the runs of other chunks."""
        self.paths += other.paths
        self.sizes += other.sizes
        self.stats.add(other.stats)


def make_pretraining_data(
    inputs: Sequence[InputFile],
    tokenizer: Tokenizer,
    config: PretrainingDataConfig,
    shards: Sequence[str],
    folder: str,
    num_workers: int,
) -> MadeData:
    """Makes the records of a corpus, with `num_workers` processes at most.

    The numbers of records of the shards differ by at most one; existing shards are taken for complete.
    The runs are in `folder`, which exists; complete chunks in it are reused if they are still valid.
    """
    paths = [file.path for file in inputs]
    reader = config.read(paths)
    size = sum(file.size for file in inputs)
    request = repr((config, tokenizer.vocabulary_sha256, tokenizer.lower_case))
    request += hashlib.sha256(tokenizer.word_start).hexdigest()
    make_run = functools.partial(_make_run, ChunkMaker(tokenizer, config), request, folder)
    workers = min(num_workers, 1 + size * config.dupe_factor // _TEXT_BYTES_PER_WORKER)
    runs = Runs()
    with (
        expect_unchanged(inputs),
        Progress("making instances", "MB", size / _MEGABYTE) as progress,
    ):
        for of_chunk, input_bytes in run_tasks(make_run, reader.chunks(), workers):
            runs.add(of_chunk)
            progress.update(input_bytes / _MEGABYTE, {"instances": of_chunk.stats.instances})
    runs.stats.check(config.segments, paths, len(shards))

    total = runs.stats.instances
    ranks = [number * total // len(shards) for number in range(len(shards) + 1)]
    tasks = zip(shards, itertools.pairwise(ranks), strict=True)
    write_shard = functools.partial(_write_shard, runs.paths, runs.sizes)
    workers = min(num_workers, 1 + int(runs.sizes[1].sum()) // _RECORD_BYTES_PER_WORKER)
    with Progress("writing", "instances", total) as progress:
        for records in run_tasks(write_shard, tasks, workers):
            progress.update(records)
    return MadeData(runs.stats, reader.sha256)


def _make_run(
    make_records: ChunkMaker, request: str, folder: str, chunk: Chunk
) -> tuple[Runs, int]:
    """Returns the runs of a chunk and its bytes of input; a report marks the chunk as complete."""
    prefix = os.path.join(folder, f"chunk-{chunk.number:06d}")
    path = f"{prefix}.json"
    # All that determines the records.
    sources = hashlib.sha256(f"{request} {chunk.first_document}".encode())
    for document in chunk.documents:  # no text holds a line feed
        sources.update("\n".join(["", "", *document]).encode())
    report = files.read_json(path) if tf.io.gfile.exists(path) else {}
    if report.get("sources") == sources.hexdigest():
        runs = Runs(
            [os.path.join(folder, name) for name in report["runs"]],
            np.array(report["sizes"]),
            PretrainingDataStats.from_json_dict(report["stats"]),
        )
        return runs, chunk.input_bytes
    files.remove(path)  # it belongs to other sources; the new runs get the same names
    stats, writer = PretrainingDataStats(), RunWriter(prefix)
    for key, record in make_records(chunk, stats):
        writer.add(key, record)
    writer.flush()
    report = {
        "sources": sources.hexdigest(),
        "runs": [os.path.basename(run) for run in writer.paths],
        "sizes": writer.sizes.tolist(),
        "stats": stats.to_json_dict(),
    }
    files.write_json(path, report)
    return Runs(writer.paths, writer.sizes, stats), chunk.input_bytes


def _write_shard(
    runs: Sequence[str],
    sizes: np.ndarray,
    shard: tuple[str, tuple[int, int]],
) -> int:
    """Writes a file with the records of some ranks, if it is missing, and returns their number."""
    path, (first, last) = shard
    if not tf.io.gfile.exists(path):
        write_records(path, read_sorted(runs, sizes, first, last))
    return last - first


class RunWriter:
    """Collects records and writes them as sorted runs, `<prefix>-0.run` and so on; see `Runs`."""

    def __init__(self, prefix: str):
        self.paths: list[str] = []
        self.sizes = _no_sizes()
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
        self._records.sort()  # those with equal keys by their bytes
        bins = [key >> (KEY_BITS - _BIN_BITS) for key, _ in self._records]
        lengths = [_HEADER.size + len(record) for _, record in self._records]
        bytes_of_bins = np.bincount(bins, lengths, minlength=_BINS).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(bytes_of_bins)]) + _INDEX_BYTES
        with (
            files.write_atomically(path) as incomplete,
            tf.io.gfile.GFile(incomplete, "wb") as file,
        ):
            file.write(offsets.astype(_INDEX_TYPE).tobytes())
            for key, record in self._records:
                file.write(_HEADER.pack(key, len(record)) + record)
        self.paths.append(path)
        self.sizes += [np.bincount(bins, minlength=_BINS), bytes_of_bins]
        self._records, self._bytes = [], 0


def read_sorted(paths: Sequence[str], sizes: np.ndarray, first: int, last: int) -> Iterator[bytes]:
    """Yields the records of ranks `first` to `last - 1`, in the order of the keys; see `Runs.sizes`."""
    ends = np.cumsum(sizes[0])
    rank = 0
    for first_bin, last_bin in _group_bins(sizes[1]):
        group_end = int(ends[last_bin - 1])
        if first < group_end and rank < last:
            of_runs = (_read_bins(path, first_bin, last_bin) for path in paths)
            records = sorted(itertools.chain.from_iterable(of_runs))
            yield from (record for _, record in records[max(0, first - rank) : last - rank])
        rank = group_end


def _group_bins(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yields (first bin, bin after the last) of groups of bins that fit in memory."""
    first, total = 0, 0
    for bin_, length in enumerate(sizes.tolist()):
        if bin_ > first and total + length > _MAX_BYTES:
            yield first, bin_
            first, total = bin_, 0
        total += length
    yield first, _BINS


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
