"""Makes pre-training data in two passes of parallel workers, with memory independent of the corpus.

It is an external sort by random keys. The first pass writes a *part* for each chunk of the corpus: its
records, sorted by key. The second pass merges the parts into shards: the shard of a record is
`key * N >> 64`, with N shards.

A part is named by the hash of all that determines its content. So an existing part is complete and valid,
even if other parts of the input have changed, and a stopped run resumes.
"""

import array
import functools
import hashlib
import heapq
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf import files
from albert_tf.data.pretraining.corpus import Chunk
from albert_tf.data.pretraining.input_files import InputFile, expect_unchanged
from albert_tf.data.pretraining.instances import (
    KEY_BITS,
    ChunkMaker,
    KeyedRecord,
    PretrainingDataConfig,
    PretrainingDataStats,
)
from albert_tf.data.records import write_records
from albert_tf.data.workers import run_tasks
from albert_tf.progress import Progress
from albert_tf.tokenization import Tokenizer

_MEGABYTE = 1e6
# Starting a process takes longer than the work on fewer bytes of text, in all copies, or instances.
_TEXT_BYTES_PER_WORKER = 1 << 25
_INSTANCES_PER_WORKER = 100_000

# Memory for the records of a chunk, the others being in a temporary file, and for those that are merged.
_MAX_BYTES = 1 << 25

_OFFSET = np.dtype("<u8")
_HEADER = struct.Struct("<QI")  # key, length of the record


def make_pretraining_data(
    inputs: Sequence[InputFile],
    tokenizer: Tokenizer,
    config: PretrainingDataConfig,
    shards: Sequence[str],
    folder: str,
    num_workers: int,
) -> tuple[PretrainingDataStats, dict[str, str]]:
    """Makes the records of a corpus, with `num_workers` processes at most.

    Existing shards are taken for complete, and so are the parts in `folder`, which exists. Returns the
    counts, and the SHA-256 of each file by path.
    """
    paths = [file.path for file in inputs]
    reader = config.read(paths)
    size = sum(file.size for file in inputs)
    make_part = PartMaker(tokenizer, config, num_shards=len(shards), folder=folder)
    workers = min(num_workers, 1 + size * config.dupe_factor // _TEXT_BYTES_PER_WORKER)
    parts, stats = [], PretrainingDataStats()
    with (
        expect_unchanged(inputs),
        Progress("making instances", "MB", size / _MEGABYTE) as progress,
    ):
        for part in run_tasks(make_part, reader.chunks(), workers):
            parts.append(part)
            stats.add(read_stats(part, len(shards)))
            done = reader.bytes_read / _MEGABYTE
            progress.update(done - progress.done)
    stats.check(config.segments, paths, len(shards))

    write = functools.partial(write_shard, parts, shards)
    workers = min(num_workers, 1 + stats.instances // _INSTANCES_PER_WORKER)
    with Progress("writing", "instances", stats.instances) as progress:
        for number in run_tasks(write, range(len(shards)), workers):
            progress.update(stats.shard_records[number])
    return stats, reader.sha256


class PartMaker:
    """Makes the parts of chunks, in a folder.

    A part begins with N + 1 offsets: where its records of each of the N shards begin, and where the last
    ones end. From there on it has its counts, as JSON.
    """

    def __init__(
        self, tokenizer: Tokenizer, config: PretrainingDataConfig, num_shards: int, folder: str
    ):
        self._make_records = ChunkMaker(tokenizer, config)
        self._num_shards = num_shards
        self._folder = folder
        sources = (config, num_shards, tokenizer.vocabulary_sha256, tokenizer.lower_case)
        self._sources = repr(sources).encode() + tokenizer.word_start.tobytes()

    def __call__(self, chunk: Chunk) -> str:
        """Returns the path of a chunk's part, which is made if it is missing."""
        sources = hashlib.sha256(self._sources + str(chunk.first_document).encode())
        for document in chunk.documents:  # no text holds a line feed
            sources.update("\n".join(["", "", *document]).encode())
        path = os.path.join(self._folder, sources.hexdigest())
        files.write_once(path, self._write, chunk)
        return path

    def _write(self, path: str, chunk: Chunk) -> None:
        stats = PretrainingDataStats()
        keys, ends = array.array("Q"), array.array("Q", [0])
        local = None if "://" in self._folder else self._folder
        with (
            files.write_atomically(path) as incomplete,
            tempfile.SpooledTemporaryFile(_MAX_BYTES, dir=local) as unsorted,
            files.open_file(incomplete, "wb") as file,
        ):
            for key, record in self._make_records(chunk, stats):
                unsorted.write(_HEADER.pack(key, len(record)) + record)
                keys.append(key)
                ends.append(unsorted.tell())
            shards = [key * self._num_shards >> KEY_BITS for key in keys]
            stats.shard_records.update(shards)
            sizes = np.bincount(shards, np.diff(ends), self._num_shards)
            offsets = np.cumsum([(len(sizes) + 1) * _OFFSET.itemsize, *sizes])
            file.write(offsets.astype(_OFFSET).tobytes())
            for place in np.argsort(keys, kind="stable").tolist():
                unsorted.seek(ends[place])
                file.write(unsorted.read(ends[place + 1] - ends[place]))
            file.write(files.to_json(stats.to_json_dict()).encode())


def read_stats(part: str, num_shards: int) -> PretrainingDataStats:
    """Returns the counts of a part."""
    (end,) = _read_offsets(part, num_shards, 1)
    counts = files.parse_json(_read(part, end), part)
    return PretrainingDataStats.from_json_dict(counts)


def write_shard(parts: Sequence[str], shards: Sequence[str], number: int) -> int:
    """Writes a shard from the parts, if it is missing, and returns its number."""
    size = 1 + _MAX_BYTES // len(parts)
    records = heapq.merge(*(_read_records(part, number, size) for part in parts))
    files.write_once(shards[number], write_records, (record for _, record in records))
    return number


def _read_records(part: str, shard: int, size: int) -> Iterator[KeyedRecord]:
    """Yields the records of a shard, in order, and holds about `size` bytes.

    The file is closed between two reads, as a process cannot have all parts of a large corpus open.
    """
    begin, end = _read_offsets(part, shard, 2)
    unread = b""
    while begin < end:
        unread += _read(part, begin, min(size, end - begin))
        begin += size
        place = 0
        while (start := place + _HEADER.size) <= len(unread):
            key, length = _HEADER.unpack_from(unread, place)
            if start + length > len(unread):
                break
            place = start + length
            yield key, unread[start:place]
        unread = unread[place:]


def _read_offsets(part: str, first: int, count: int) -> list[int]:
    offsets = _read(part, first * _OFFSET.itemsize, count * _OFFSET.itemsize)
    return np.frombuffer(offsets, _OFFSET).tolist()


def _read(path: str, begin: int, length: int = -1) -> bytes:
    with files.explain_unreadable(path), files.open_file(path, "rb") as file:
        file.seek(begin)
        return file.read(length)
