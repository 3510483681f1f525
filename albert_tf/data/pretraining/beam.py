"""Makes pre-training data as an Apache Beam pipeline, on many machines.

The chunks of the corpus, their parts and the shards are those of a local run.

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
import textwrap
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from albert_tf import files
from albert_tf.data.pretraining.corpus import Chunk, count_characters, group_documents, no_text
from albert_tf.data.pretraining.input_files import InputFile, expect_unchanged
from albert_tf.data.pretraining.instances import PretrainingDataConfig, PretrainingDataStats
from albert_tf.data.pretraining.shards import PartMaker, read_stats, write_shard
from albert_tf.errors import InputError, ReportedError, StoppedError
from albert_tf.extras import check_extra
from albert_tf.tokenization import Tokenizer

# With Dask's runner each stage has as many tasks as the first collection has elements. So there are more
# than a few files need; the rest do nothing in the first stage.
_LEAST_ELEMENTS = 16
# Runner -> modules that it needs, and that the extra brings.
_MODULES = {"DaskRunner": ("dask", "distributed")}
# Runner -> package to install for it, if the extra does not bring it.
_PACKAGES = {"DataflowRunner": "apache-beam[gcp]"}
# Runner -> the name by which Beam knows it, if it is another one.
_FULL_NAMES = {"DaskRunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}
_DASK_PARTITIONS = ("--dask_partition_size", "--dask_npartitions")
_MAX_REASON_LENGTH = 300

# What workers leave in the folder: hashes of the input files; the parts and a total of their counts; and
# an error for the user, as each runner wraps exceptions in its own way. The log has the runner's error.
_FILES = _READING, _PARTS, _ERROR, _LOG = (
    "reading.json",
    "parts.json",
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
) -> tuple[PretrainingDataStats, dict[str, str]]:
    """Makes the records of a corpus; workers have to reach all files and `folder`.

    Returns the counts, and the SHA-256 of each file by path.
    """
    paths = [file.path for file in inputs]
    reading, parts = os.path.join(folder, _READING), os.path.join(folder, _PARTS)
    for name in _FILES:
        files.remove(os.path.join(folder, name))  # of an earlier run
    make_part = PartMaker(tokenizer, config, num_shards=len(shards), folder=folder)
    stages = {
        "Measure": functools.partial(_measure, paths, config),
        "Plan": functools.partial(_plan, paths, config, reading),
        "Read": functools.partial(_read, paths, config),
        "Make": functools.partial(_make, make_part),
        "Count": functools.partial(_count, paths, config, len(shards), parts),
        "Write": functools.partial(_write, parts, shards),
    }
    first = range(max(len(paths), _LEAST_ELEMENTS))
    with expect_unchanged(inputs):
        _run(stages, first, runner, runner_options, folder)
    if not all(map(files.exists, [parts, *shards])):  # as when Dask's scheduler has ended
        raise StoppedError(f"{runner} ended before the pipeline; its own log may tell why")
    counts = files.read_json(parts)["counts"]
    return PretrainingDataStats.from_json_dict(counts), files.read_json(reading)


def _keep_error(
    path: str, stage: Callable[[Any], Iterator[Element]], element: Any
) -> Iterator[Element]:
    """Does the work of a stage, and writes its error for the user to a file."""
    try:
        yield from stage(element)
    except ReportedError as error:
        kept = {"stopped": isinstance(error, StoppedError), "message": str(error)}
        files.write_once(path, files.write_json, kept)
        raise


def _raise_error(folder: str, runner: str, error: Exception) -> NoReturn:
    """Raises a worker's error for the user, or else one that says that the runner failed."""
    error_file, log = os.path.join(folder, _ERROR), os.path.join(folder, _LOG)
    if files.exists(error_file):
        kept = files.read_json(error_file)
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
    check_extra("beam", "apache_beam", *_MODULES.get(runner, ()))
    import apache_beam
    from apache_beam.runners.runner import create_runner

    try:
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


def _measure(paths: Sequence[str], config: PretrainingDataConfig, number: int) -> Iterator[Element]:
    """Measures the file of a number; there may be fewer files than numbers.

    Yields with the key 0 the number, the numbers of characters of the documents, and the file's SHA-256.
    """
    for path in paths[number : number + 1]:
        reader = config.read([path])
        characters = np.fromiter(map(count_characters, reader.documents()), np.int64)
        yield 0, (number, characters, reader.sha256[path])


def _plan(
    paths: Sequence[str], config: PretrainingDataConfig, reading: str, group: Group
) -> Iterator[Element]:
    """Assigns the documents of all measured files to chunks, and writes the hashes of the files.

    Yields for each file its number, and for each chunk that has some of its documents the chunk's number,
    the first document's number in the corpus, and how many there are.
    """
    measured = sorted(group[1], key=operator.itemgetter(0))
    documents = ((number, size) for number, sizes, _ in measured for size in sizes.tolist())
    chunks = group_documents(documents, operator.itemgetter(1), config.segments.min_documents)
    planned: list[list[tuple[int, int, int]]] = [[] for _ in paths]
    first_document = 0
    for chunk, members in enumerate(chunks):
        for number, count in collections.Counter(number for number, _ in members).items():
            planned[number].append((chunk, first_document, count))
            first_document += count
    if not first_document:
        raise no_text(paths, config.corpus)
    hashes = {paths[number]: sha256 for number, _, sha256 in measured}
    files.write_once(reading, files.write_json, hashes)
    yield from enumerate(planned)


def _read(paths: Sequence[str], config: PretrainingDataConfig, group: Group) -> Iterator[Element]:
    """Yields what a planned file has of each chunk, with the chunk's number."""
    number, (planned,) = group
    documents = config.read([paths[number]]).documents()
    for chunk, first_document, count in planned:
        yield chunk, Chunk(first_document, list(itertools.islice(documents, count)))


def _make(make_part: PartMaker, group: Group) -> Iterator[Element]:
    """Makes the part of a chunk, given what its files have of it, and yields its path with the key 0."""
    file_chunks = sorted(group[1], key=operator.attrgetter("first_document"))
    documents = list(itertools.chain.from_iterable(chunk.documents for chunk in file_chunks))
    yield 0, make_part(Chunk(file_chunks[0].first_document, documents))


def _count(
    paths: Sequence[str], config: PretrainingDataConfig, num_shards: int, path: str, group: Group
) -> Iterator[Element]:
    """Writes the paths of all parts and a total of their counts, and yields the numbers of the shards."""
    parts, total = list(group[1]), PretrainingDataStats()
    for part in parts:
        total.add(read_stats(part, num_shards))
    total.check(config.segments, paths, num_shards)
    counted = {"parts": parts, "counts": total.to_json_dict()}
    files.write_once(path, files.write_json, counted)
    yield from ((number, None) for number in range(num_shards))


def _write(path: str, shards: Sequence[str], group: Group) -> Iterator[Element]:
    """Writes a shard from the parts, given its number."""
    write_shard(files.read_json(path)["parts"], shards, group[0])
    yield from ()
