"""Pre-training data in two passes of parallel workers, with memory that no corpus outgrows.

The first pass makes the instances, block by block, and leaves them as sorted runs; the second one puts
the shards together. A block or a shard that is complete is not made again, so that a run that was
stopped resumes where it was. A block's report says what the block was made from, so blocks that are still
good are kept even if other parts of the input, or options that don't matter to them, have changed.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf import files, gfile
from albert_tf.data.pretraining.chunks import (
    BlockMaker,
    MadeData,
    PretrainingDataRule,
    check_instances,
)
from albert_tf.data.pretraining.corpus import Block, CorpusReader, InputFile, expect_unchanged
from albert_tf.data.pretraining.shuffling import BinSizes, RunWriter, read_sorted
from albert_tf.data.pretraining.statistics import PretrainingDataStats
from albert_tf.data.record_writing import Compression, write_records
from albert_tf.data.workers import run_tasks
from albert_tf.progress import Progress
from albert_tf.tokenization import Tokenizer

_MEGABYTE = 1e6
# Of records: fewer are written sooner than a process is started.
_BYTES_PER_WORKER = 1 << 26


@dataclasses.dataclass
class Runs:
    """What the first pass leaves.

    Attributes:
        paths: the runs.
        sizes: what is in them together.
        stats: what was read and made.
    """

    paths: list[str] = dataclasses.field(default_factory=list)
    sizes: BinSizes = dataclasses.field(default_factory=BinSizes.zeros)
    stats: PretrainingDataStats = dataclasses.field(default_factory=PretrainingDataStats)

    def add(self, other: "Runs") -> None:
        """Adds the runs of other blocks."""
        self.paths += other.paths
        self.sizes += other.sizes
        self.stats.add(other.stats)


class _BlockResult(NamedTuple):
    """The runs of a block, and how many bytes of input became them."""

    runs: Runs
    input_bytes: int


class _Shard(NamedTuple):
    """A file to write, and the ranks of its records: `first` to `last - 1`."""

    path: str
    first: int
    last: int


def make_pretraining_data(
    inputs: Sequence[InputFile],
    tokenizer: Tokenizer,
    rule: PretrainingDataRule,
    shards: Sequence[str],
    compression: Compression,
    folder: str,
    num_workers: int,
) -> MadeData:
    """Makes the records of a corpus.

    Args:
        inputs: the files of the corpus.
        tokenizer: makes the pieces.
        rule: says what is made.
        shards: the files to write. They differ by one record at most.
        compression: of these files.
        folder: exists; complete blocks are left there. What it holds of others is replaced. Shards that
            exist are of this same work.
        num_workers: processes that work at it, at most.

    Raises:
        InputError: the corpus is at fault.
        StoppedError: a worker died, a file of the corpus was changed, or the file system refuses.
    """
    paths = [file.path for file in inputs]
    reader = CorpusReader(paths, rule.corpus)
    with (
        expect_unchanged(inputs),
        Progress("making instances", "MB", _megabytes(inputs)) as progress,
    ):
        runs = make_runs(reader, tokenizer, rule, folder, num_workers, progress)
    check_instances(runs.stats, rule.segments, paths, len(shards))
    with Progress("writing", "instances", runs.stats.instances) as progress:
        write_shards(runs, shards, compression, num_workers, progress)
    return MadeData(runs.stats, reader.sha256, reader.replaced_lines)


def _megabytes(inputs: Sequence[InputFile]) -> float:
    return sum(file.size for file in inputs) / _MEGABYTE


def make_runs(
    reader: CorpusReader,
    tokenizer: Tokenizer,
    rule: PretrainingDataRule,
    folder: str,
    num_workers: int,
    progress: Progress,
) -> Runs:
    """Makes the instances of a corpus.

    Args:
        reader: the corpus.
        tokenizer: makes the pieces.
        rule: says what is made.
        folder: exists; the runs are left there. Complete ones that are still good are not made again.
        num_workers: processes that work at it.
        progress: is told about each megabyte of input and each instance.

    Raises:
        InputError: the corpus is at fault.
        StoppedError: a worker died, or the file system refuses.
    """
    runs = Runs()
    make_work = functools.partial(_RunMaker, tokenizer, rule, folder)
    for result in run_tasks(make_work, reader.blocks(), num_workers):
        runs.add(result.runs)
        progress.update(result.input_bytes / _MEGABYTE, {"instances": result.runs.stats.instances})
    return runs


def write_shards(
    runs: Runs,
    paths: Sequence[str],
    compression: Compression,
    num_workers: int,
    progress: Progress,
) -> None:
    """Writes all records, shuffled, to files that differ by one record at most.

    Args:
        runs: the records.
        paths: the files; those that exist are complete and stay.
        compression: of the files.
        num_workers: processes that work at it, at most.
        progress: is told about each record.

    Raises:
        StoppedError: a worker died, or the file system refuses.
    """
    total = runs.stats.instances
    ranks = [number * total // len(paths) for number in range(len(paths) + 1)]
    shards = map(_Shard, paths, ranks, itertools.islice(ranks, 1, None))
    make_work = functools.partial(_ShardWriter, runs.paths, runs.sizes, compression)
    num_workers = min(num_workers, 1 + int(runs.sizes.bytes.sum()) // _BYTES_PER_WORKER)
    for records in run_tasks(make_work, shards, num_workers):
        progress.update(records)


class _RunMaker:
    """Makes the runs of blocks. A report beside them says that a block is complete."""

    def __init__(self, tokenizer: Tokenizer, rule: PretrainingDataRule, folder: str):
        self._make_records = BlockMaker(tokenizer, rule)
        self._folder = folder
        self._request = repr((rule, tokenizer.vocabulary_sha256, tokenizer.lower_case))
        self._request += hashlib.sha256(tokenizer.word_start).hexdigest()

    def __call__(self, block: Block) -> _BlockResult:
        prefix = os.path.join(self._folder, f"block-{block.number:06d}")
        report = f"{prefix}.json"
        sources = self._hash_sources(block)
        if made := _read_report(report, sources, self._folder):
            return _BlockResult(made, block.input_bytes)
        files.remove(report)  # of other sources; the runs get the same names
        stats = PretrainingDataStats()
        writer = RunWriter(prefix)
        for key, record in self._make_records(block, stats):
            writer.add(key, record)
        writer.flush()
        runs = Runs(writer.paths, writer.sizes, stats)
        _write_report(report, sources, runs)
        return _BlockResult(runs, block.input_bytes)

    def _hash_sources(self, block: Block) -> str:
        """Returns a hash of all that decides what is made of a block."""
        hasher = hashlib.sha256(f"{self._request} {block.first_document}".encode())
        for document in block.documents:  # no text holds a line feed
            hasher.update("\n".join(["", "", *document]).encode())
        return hasher.hexdigest()


def _write_report(path: str, sources: str, runs: Runs) -> None:
    files.write_json(
        path,
        {
            "sources": sources,
            "runs": [os.path.basename(run) for run in runs.paths],
            "sizes": [array.tolist() for array in runs.sizes],
            "stats": runs.stats.to_json_dict(),
        },
    )


def _read_report(path: str, sources: str, folder: str) -> Runs | None:
    """Returns the runs of a complete block, or None if there are none that were made from `sources`."""
    if not gfile.exists(path):
        return None
    report = files.read_json(path)
    if report.get("sources") != sources:
        return None
    return Runs(
        [os.path.join(folder, name) for name in report["runs"]],
        BinSizes(*map(np.array, report["sizes"])),
        PretrainingDataStats.from_json_dict(report["stats"]),
    )


class _ShardWriter:
    """Writes shards from runs, and returns how many records each has."""

    def __init__(self, runs: Sequence[str], sizes: BinSizes, compression: Compression):
        self._runs = runs
        self._sizes = sizes
        self._compression = compression

    def __call__(self, shard: _Shard) -> int:
        if not gfile.exists(shard.path):
            records = read_sorted(self._runs, self._sizes, shard.first, shard.last)
            write_records(shard.path, records, self._compression)
        return shard.last - shard.first
