"""Makes pre-training data as an Apache Beam pipeline, on many machines.

The chunks of the corpus, their records and the order of the records are those of `shards`. Only where the
order is cut differs: here each shard has an equal part of the range of keys.

The pipeline is a chain of `FlatMap` and `GroupByKey`, because some runners know little else. Dask's mixes
up several outputs of one transform, computes a side input again for each use, and runs only what the last
transform depends on.

Apache Beam is imported where it is used: it takes seconds, and few need it.
"""

import collections
import contextlib
import functools
import itertools
import operator
import os
import tempfile
import textwrap
import traceback
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.corpus import Chunk, count_characters, group_documents, no_text
from albert_tf.data.pretraining.input_files import InputFile, expect_unchanged
from albert_tf.data.pretraining.instances import (
    KEY_BITS,
    ChunkMaker,
    MadeData,
    PretrainingDataConfig,
    PretrainingDataStats,
)
from albert_tf.data.pretraining.shards import RunWriter, read_sorted
from albert_tf.data.records import write_records
from albert_tf.errors import InputError, ReportedError, StoppedError
from albert_tf.tokenization import Tokenizer

# With Dask's runner each stage has as many tasks as the first collection has elements. So there are more
# than a few files need; the rest do nothing in the first stage.
_LEAST_ELEMENTS = 16
# Runner -> package to install for it.
_PACKAGES = {"DaskRunner": "apache-beam[dask]", "DataflowRunner": "apache-beam[gcp]"}
# Runner -> the name by which Beam knows it, if it is another one.
_FULL_NAMES = {"DaskRunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}
_DASK_PARTITIONS = ("--dask_partition_size", "--dask_npartitions")
_MAX_REASON_LENGTH = 300

# The key of the counts, among the numbers of the shards.
_COUNTS = -1

# What workers leave in the folder: hashes of the input files; the total of the counts, which comes last;
# and an error for the user, as each runner wraps exceptions in its own way. The log has the error of the
# runner.
_FILES = _READING, _TOTAL, _ERROR, _LOG = (
    "reading.json",
    "counts.json",
    "error.json",
    "pipeline.log",
)

# A key with an element, and a key with all of its elements.
Element = tuple[int, Any]
Group = tuple[int, Iterable[Any]]


def make_pretraining_data(
    inputs: Sequence[InputFile],
    tokenizer: Tokenizer,
    config: PretrainingDataConfig,
    shards: Sequence[str],
    folder: str,
    runner: str,
    runner_options: Sequence[str],
) -> MadeData:
    """Makes the records of a corpus, all or nothing; workers have to reach all files and `folder`."""
    paths = [file.path for file in inputs]
    reading, total = os.path.join(folder, _READING), os.path.join(folder, _TOTAL)
    for name in _FILES:
        files.remove(os.path.join(folder, name))  # of an earlier run
    stages = {
        "Measure": functools.partial(_measure, paths, config),
        "Plan": functools.partial(_plan, paths, config, reading),
        "Read": functools.partial(_read, paths, config),
        "Make": functools.partial(_make, ChunkMaker(tokenizer, config), len(shards)),
        "Write": functools.partial(_write, shards),
        "Finish": functools.partial(_finish, total),
    }
    first = range(max(len(paths), _LEAST_ELEMENTS))
    with expect_unchanged(inputs):
        _run(stages, first, runner, runner_options, folder)
    if not tf.io.gfile.exists(total):  # as when Dask's scheduler has ended
        raise StoppedError(f"{runner} ended before the pipeline; its own log may tell why")
    stats = PretrainingDataStats.from_json_dict(files.read_json(total))
    stats.check(config.segments, paths, len(shards))
    if not all(map(tf.io.gfile.exists, shards)):
        raise InputError(
            f"num_shards={len(shards)}: expected fewer for {stats.instances} instances, as one would be "
            "empty"
        )
    return MadeData(stats, files.read_json(reading))


def _keep_error(
    path: str, stage: Callable[[Any], Iterator[Element]], element: Any
) -> Iterator[Element]:
    """Does the work of a stage, and writes its error for the user to a file."""
    try:
        yield from stage(element)
    except ReportedError as error:
        kept = {"stopped": isinstance(error, StoppedError), "message": str(error)}
        _write_once(path, files.write_json, kept)
        raise


def _raise_error(folder: str, runner: str, error: Exception) -> NoReturn:
    """Raises a worker's error for the user, or else one that says that the runner failed."""
    of_worker, log = os.path.join(folder, _ERROR), os.path.join(folder, _LOG)
    if tf.io.gfile.exists(of_worker):
        kept = files.read_json(of_worker)
        raise (StoppedError if kept["stopped"] else InputError)(kept["message"]) from error
    files.write_text(log, "".join(traceback.format_exception(error)))
    lines = str(error).strip().split("\n")
    line = lines[-1] if any("Traceback" in line for line in lines) else lines[0]
    reason = textwrap.shorten(f"{type(error).__name__}: {line}", _MAX_REASON_LENGTH)
    raise StoppedError(f"{runner} failed: {reason} (more in {log})") from error


def _run(
    stages: Mapping[str, Callable[[Any], Iterator[Element]]],
    first: Iterable[int],
    runner: str,
    runner_options: Sequence[str],
    folder: str,
) -> None:
    """Runs a pipeline: the first stage gets elements, each other one groups of the one before."""
    beam = _import_beam(runner)
    from apache_beam.options.pipeline_options import PipelineOptions

    options = list(runner_options)
    if runner == "DaskRunner" and not any(flag.startswith(_DASK_PARTITIONS) for flag in options):
        options.append("--dask_partition_size=1")  # by default one task has 128 files
    try:
        pipeline = beam.Pipeline(_FULL_NAMES.get(runner, runner), PipelineOptions(options))
    except ValueError as error:  # such as an option that the runner needs
        raise InputError(f"runner_options: {' '.join(str(error).split())}") from error
    elements = pipeline | beam.Create(first)
    for number, (name, stage) in enumerate(stages.items()):
        if number:
            elements |= f"Group for {name}" >> beam.GroupByKey()
        keep_error = functools.partial(_keep_error, os.path.join(folder, _ERROR), stage)
        elements |= name >> beam.FlatMap(keep_error)
    print(f"making instances with {runner}", flush=True)
    try:
        result = pipeline.run()
        # Dask's runner leaves its client connected.
        with getattr(result, "client", contextlib.nullcontext()):
            result.wait_until_finish()
    except Exception as error:
        _raise_error(folder, runner, error)


def _import_beam(runner: str) -> types.ModuleType:
    try:
        import apache_beam
        from apache_beam.runners.runner import create_runner

        create_runner(_FULL_NAMES.get(runner, runner))
    except ImportError as error:
        package = _PACKAGES.get(runner, "apache-beam")
        raise InputError(
            f"needs a package that is not installed: pip install '{package}' 'sentencepiece<0.2.3'"
        ) from error
    return apache_beam


# The stages: functions from an element, or from all elements of a key, to elements. A chunk begins where
# the one before ends, so the files are read twice, in parallel: first to measure their documents, then to
# send the documents of each chunk to one worker.


class _MeasuredFile(NamedTuple):
    """What `CorpusReader` says of a file, and the number of characters of each document, int64 (n,)."""

    number: int
    characters: np.ndarray
    sha256: str


def _measure(paths: Sequence[str], config: PretrainingDataConfig, number: int) -> Iterator[Element]:
    """Yields a measured file, given its number, with the key 0; there may be fewer files than numbers."""
    for path in paths[number : number + 1]:
        reader = config.read([path])
        characters = np.fromiter(map(count_characters, reader.documents()), np.int64)
        yield 0, _MeasuredFile(number, characters, reader.sha256[path])


class _PlannedFile(NamedTuple):
    """The number of its first document, and chunk and number of documents in the order of the file."""

    first_document: int
    chunks: list[tuple[int, int]]


def _plan(
    paths: Sequence[str], config: PretrainingDataConfig, reading: str, group: Group
) -> Iterator[Element]:
    """Assigns the documents of all measured files to chunks, and writes the hashes of the files.

    Yields what to read from each file, with the file's number.
    """
    measured = sorted(group[1], key=operator.attrgetter("number"))
    firsts = itertools.accumulate((len(file.characters) for file in measured), initial=0)
    planned = [_PlannedFile(next(firsts), []) for _ in measured]
    documents = (
        (file.number, characters) for file in measured for characters in file.characters.tolist()
    )
    chunks = group_documents(documents, operator.itemgetter(1), config.segments.min_documents)
    for chunk, members in enumerate(chunks):
        for number, size in collections.Counter(number for number, _ in members).items():
            planned[number].chunks.append((chunk, size))
    if not any(file.chunks for file in planned):
        raise no_text(paths, config.corpus)
    hashes = {paths[file.number]: file.sha256 for file in measured}
    _write_once(reading, files.write_json, hashes)
    yield from enumerate(planned)


def _read(paths: Sequence[str], config: PretrainingDataConfig, group: Group) -> Iterator[Element]:
    """Yields what a planned file has of each chunk, with the chunk's number."""
    number, (planned,) = group
    documents = config.read([paths[number]]).documents()
    first_document = planned.first_document
    for chunk, size in planned.chunks:
        members = list(itertools.islice(documents, size))
        yield chunk, Chunk(chunk, first_document, members, 0)
        first_document += size


def _make(make_records: ChunkMaker, num_shards: int, group: Group) -> Iterator[Element]:
    """Makes the records of a chunk, given its parts.

    A random key of 64 bits, times the number of shards, is the number of the shard and the place there.
    Yields places and records with the numbers of the shards, then counts with their own key.
    """
    number, parts = group
    parts = sorted(parts, key=operator.attrgetter("first_document"))
    documents = list(itertools.chain.from_iterable(part.documents for part in parts))
    chunk = Chunk(number, parts[0].first_document, documents, 0)
    stats = PretrainingDataStats()
    for key, record in make_records(chunk, stats):
        shard, place = divmod(key * num_shards, 1 << KEY_BITS)
        yield shard, (place, record)
    yield _COUNTS, stats.to_json_dict()


def _write(shards: Sequence[str], group: Group) -> Iterator[Element]:
    """Writes a shard, or yields the total of the counts with the key 0."""
    number, values = group
    if number == _COUNTS:
        total = PretrainingDataStats()
        for counts in values:
            total.add(PretrainingDataStats.from_json_dict(counts))
        yield 0, total.to_json_dict()
        return
    with tempfile.TemporaryDirectory() as local:
        writer = RunWriter(os.path.join(local, "sorted"))  # they need not fit in memory
        for key, record in values:
            writer.add(key, record)
        writer.flush()
        records = read_sorted(writer.paths, writer.sizes, 0, int(writer.sizes[0].sum()))
        _write_once(shards[number], write_records, records)


def _finish(path: str, group: Group) -> Iterator[Element]:
    """Writes the counts. As the groups of a stage need all of the one before, all shards are complete."""
    (counts,) = group[1]
    _write_once(path, files.write_json, counts)
    yield from ()


def _write_once(path: str, write: Callable[..., None], *content: Any) -> None:
    """Writes a file that another worker, taken for dead, may be writing, too."""
    own = f"{path}-{uuid.uuid4().hex}"
    write(own, *content)
    with files.explain_refusal(path):
        tf.io.gfile.rename(own, path, overwrite=True)
