"""Makes pre-training data in two passes of parallel workers, with memory independent of the corpus.

The first pass makes the instances, chunk by chunk, and writes them as sorted runs. The second pass
merges the runs into shards. A run that was stopped resumes: complete chunks and shards are not made
again. The report of a chunk says what the chunk was made from, so it stays valid even if other parts of
the input, or options that don't affect it, have changed.
"""

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.corpus import Chunk, CorpusReader
from albert_tf.data.pretraining.input_files import InputFile, expect_unchanged
from albert_tf.data.pretraining.instances import ChunkMaker, PretrainingDataConfig
from albert_tf.data.pretraining.shuffling import BinSizes, RunWriter, read_sorted
from albert_tf.data.pretraining.statistics import MadeData, PretrainingDataStats
from albert_tf.data.records import Compression, write_records
from albert_tf.data.workers import run_tasks
from albert_tf.progress import Progress
from albert_tf.tokenization import Tokenizer

_MEGABYTE = 1e6
# Starting a process takes longer than the work on fewer bytes of text, in all copies, or of records.
_TEXT_BYTES_PER_WORKER = 1 << 25
_RECORD_BYTES_PER_WORKER = 1 << 28


@dataclasses.dataclass
class Runs:
    """The result of the first pass.

    Attributes:
        paths: the runs.
        sizes: sizes of their bins, in total.
        stats: statistics of the corpus and the instances.
    """

    paths: list[str] = dataclasses.field(default_factory=list)
    sizes: BinSizes = dataclasses.field(default_factory=BinSizes.zeros)
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
    compression: Compression,
    folder: str,
    num_workers: int,
) -> MadeData:
    """Makes the records of a corpus.

    Args:
        inputs: files of the corpus.
        tokenizer: tokenizer of the text.
        config: what to make.
        shards: files to write. Existing ones are taken for complete. Their numbers of records differ by
            at most one.
        compression: compression of the shards.
        folder: existing folder for the runs. Complete chunks in it are reused if they are still valid.
        num_workers: maximum number of worker processes.
    """
    paths = [file.path for file in inputs]
    reader = config.read(paths)
    size = sum(file.size for file in inputs)
    worth = 1 + size * config.dupe_factor // _TEXT_BYTES_PER_WORKER
    with (
        expect_unchanged(inputs),
        Progress("making instances", "MB", size / _MEGABYTE) as progress,
    ):
        runs = make_runs(reader, tokenizer, config, folder, min(num_workers, worth), progress)
    runs.stats.check(config.segments, paths, len(shards))
    with Progress("writing", "instances", runs.stats.instances) as progress:
        write_shards(runs, shards, compression, num_workers, progress)
    return MadeData(runs.stats, reader.sha256, reader.replaced_lines)


def make_runs(
    reader: CorpusReader,
    tokenizer: Tokenizer,
    config: PretrainingDataConfig,
    folder: str,
    num_workers: int,
    progress: Progress,
) -> Runs:
    """Makes the instances of a corpus; see `make_pretraining_data`."""
    runs = Runs()
    make_run = _RunMaker(tokenizer, config, folder)
    for of_chunk, input_bytes in run_tasks(make_run, reader.chunks(), num_workers):
        runs.add(of_chunk)
        progress.update(input_bytes / _MEGABYTE, {"instances": of_chunk.stats.instances})
    return runs


def write_shards(
    runs: Runs,
    paths: Sequence[str],
    compression: Compression,
    num_workers: int,
    progress: Progress,
) -> None:
    """Writes all records, shuffled, to the files that are missing; see `make_pretraining_data`."""
    total = runs.stats.instances
    ranks = [number * total // len(paths) for number in range(len(paths) + 1)]
    shards = zip(paths, itertools.pairwise(ranks), strict=True)
    write_shard = _ShardWriter(runs.paths, runs.sizes, compression)
    num_workers = min(num_workers, 1 + int(runs.sizes.bytes.sum()) // _RECORD_BYTES_PER_WORKER)
    for records in run_tasks(write_shard, shards, num_workers):
        progress.update(records)


class _RunMaker:
    """Makes the runs of chunks, with a report that marks a chunk as complete.

    Returns the runs of a chunk, and its bytes of input.
    """

    def __init__(self, tokenizer: Tokenizer, config: PretrainingDataConfig, folder: str):
        self._make_records = ChunkMaker(tokenizer, config)
        self._folder = folder
        self._request = repr((config, tokenizer.vocabulary_sha256, tokenizer.lower_case))
        self._request += hashlib.sha256(tokenizer.word_start).hexdigest()

    def __call__(self, chunk: Chunk) -> tuple[Runs, int]:
        prefix = os.path.join(self._folder, f"chunk-{chunk.number:06d}")
        report = f"{prefix}.json"
        sources = self._hash_sources(chunk)
        if made := _read_report(report, sources, self._folder):
            return made, chunk.input_bytes
        files.remove(report)  # it belongs to other sources; the new runs get the same names
        stats = PretrainingDataStats()
        writer = RunWriter(prefix)
        for key, record in self._make_records(chunk, stats):
            writer.add(key, record)
        writer.flush()
        runs = Runs(writer.paths, writer.sizes, stats)
        _write_report(report, sources, runs)
        return runs, chunk.input_bytes

    def _hash_sources(self, chunk: Chunk) -> str:
        """Returns a hash of everything that determines the records of a chunk."""
        hasher = hashlib.sha256(f"{self._request} {chunk.first_document}".encode())
        for document in chunk.documents:  # no text holds a line feed
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
    """Returns the runs of a complete chunk if they were made from `sources`, else None."""
    if not tf.io.gfile.exists(path):
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
    """Writes a file with the records of some ranks, and returns their number."""

    def __init__(self, runs: Sequence[str], sizes: BinSizes, compression: Compression):
        self._runs = runs
        self._sizes = sizes
        self._compression = compression

    def __call__(self, shard: tuple[str, tuple[int, int]]) -> int:
        path, (first, last) = shard
        if not tf.io.gfile.exists(path):
            records = read_sorted(self._runs, self._sizes, first, last)
            write_records(path, records, self._compression)
        return last - first
