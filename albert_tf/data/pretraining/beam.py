"""Makes pre-training data as an Apache Beam pipeline, on many machines.

The chunks of the corpus, their records and the order of the records are those of `shards`. Only where the
order is cut differs: here each shard has an equal part of the range of keys.

The pipeline is a chain of `FlatMap` and `GroupByKey`, because some runners know little else. Dask's mixes
up several outputs of one transform, computes a side input again for each use, and runs only what the last
transform depends on.

Apache Beam is imported where it is used: it takes seconds, and few need it.
"""

import contextlib
import os
import textwrap
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.beam_stages import (
    Element,
    Finisher,
    Maker,
    Measurer,
    Planner,
    Reader,
    Writer,
    write_once,
)
from albert_tf.data.pretraining.input_files import InputFile, expect_unchanged
from albert_tf.data.pretraining.instances import PretrainingDataConfig
from albert_tf.data.pretraining.statistics import MadeData, PretrainingDataStats
from albert_tf.data.records import Compression
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


def make_pretraining_data(
    inputs: Sequence[InputFile],
    tokenizer: Tokenizer,
    config: PretrainingDataConfig,
    shards: Sequence[str],
    compression: Compression,
    folder: str,
    runner: str,
    runner_options: Sequence[str],
) -> MadeData:
    """Makes the records of a corpus, all or nothing.

    Args:
        inputs: files of the corpus, which all workers can read.
        tokenizer: tokenizer of the text.
        config: what to make.
        shards: files to write, which all workers can.
        compression: compression of the shards.
        folder: existing folder for counts and errors, in which all workers can write.
        runner: name of Beam's runner.
        runner_options: its options, e.g. `--project=name`.
    """
    paths = [file.path for file in inputs]
    results = _Results(folder)
    results.clear()
    stages = {
        "Measure": Measurer(paths, config),
        "Plan": Planner(paths, config, results.reading),
        "Read": Reader(paths, config),
        "Make": Maker(tokenizer, config, len(shards)),
        "Write": Writer(shards, compression),
        "Finish": Finisher(results.counts),
    }
    first = range(max(len(paths), _LEAST_ELEMENTS))
    with expect_unchanged(inputs):
        _run(stages, first, runner, runner_options, results)
    if not tf.io.gfile.exists(results.counts):  # as when Dask's scheduler has ended
        raise StoppedError(f"{runner} ended before the pipeline; its own log may tell why")
    stats = PretrainingDataStats.from_json_dict(files.read_json(results.counts))
    stats.check(config.segments, paths, len(shards))
    if not all(map(tf.io.gfile.exists, shards)):
        raise InputError(
            f"num_shards={len(shards)}: expected fewer for {stats.instances} instances, as one would be "
            "empty"
        )
    reading = files.read_json(results.reading)
    return MadeData(stats, reading["sha256"], reading["replaced_lines"])


class _Results:
    """The files in which workers leave hashes, counts and errors.

    Attributes:
        reading: hashes of the input files, and their number of replaced lines.
        counts: statistics of the corpus and the instances; they come last.
        error: a worker's error for the user, because each runner wraps exceptions in its own way.
        log: the runner's error.
    """

    def __init__(self, folder: str):
        self.reading = os.path.join(folder, "reading.json")
        self.counts = os.path.join(folder, "counts.json")
        self.error = os.path.join(folder, "error.json")
        self.log = os.path.join(folder, "pipeline.log")

    def clear(self) -> None:
        """Removes the files of an earlier run."""
        for path in vars(self).values():
            files.remove(path)

    def raise_error(self, runner: str, error: Exception) -> None:
        """Raises a worker's error for the user, or else one that says that the runner failed."""
        if tf.io.gfile.exists(self.error):
            kept = files.read_json(self.error)
            raise (StoppedError if kept["stopped"] else InputError)(kept["message"]) from error
        files.write_text(self.log, "".join(traceback.format_exception(error)))
        lines = str(error).strip().split("\n")
        line = lines[-1] if any("Traceback" in line for line in lines) else lines[0]
        reason = textwrap.shorten(f"{type(error).__name__}: {line}", _MAX_REASON_LENGTH)
        raise StoppedError(f"{runner} failed: {reason} (more in {self.log})") from error


class _Stage:
    """A stage that keeps its errors for the user in a file."""

    def __init__(self, work: Callable[[Any], Iterator[Element]], path: str):
        self._work = work
        self._path = path

    def __call__(self, element: Any) -> Iterator[Element]:
        try:
            yield from self._work(element)
        except ReportedError as error:
            kept = {"stopped": isinstance(error, StoppedError), "message": str(error)}
            write_once(self._path, files.write_json, kept)
            raise


def _run(
    stages: Mapping[str, Callable[[Any], Iterator[Element]]],
    first: Iterable[int],
    runner: str,
    runner_options: Sequence[str],
    results: _Results,
) -> None:
    """Runs a pipeline: the first stage gets elements, each other one groups of the one before."""
    beam = _import_beam(runner)
    from apache_beam.options.pipeline_options import PipelineOptions

    options = list(runner_options)
    if runner == "DaskRunner" and not any(flag.startswith(_DASK_PARTITIONS) for flag in options):
        options.append("--dask_partition_size=1")  # by default one task has 128 files
    pipeline = beam.Pipeline(_FULL_NAMES.get(runner, runner), PipelineOptions(options))
    elements = pipeline | beam.Create(first)
    for number, (name, stage) in enumerate(stages.items()):
        if number:
            elements |= f"Group for {name}" >> beam.GroupByKey()
        elements |= name >> beam.FlatMap(_Stage(stage, results.error))
    print(f"making instances with {runner}", flush=True)
    try:
        result = pipeline.run()
        # Dask's runner leaves its client connected.
        with getattr(result, "client", contextlib.nullcontext()):
            result.wait_until_finish()
    except Exception as error:
        results.raise_error(runner, error)


def _import_beam(runner: str) -> types.ModuleType:
    try:
        import apache_beam
        from apache_beam.runners.runner import create_runner

        create_runner(_FULL_NAMES.get(runner, runner))
    except ImportError as error:
        package = _PACKAGES.get(runner, "apache-beam")
        raise InputError(
            f"needs a package that is not installed: pip install '{package}'"
        ) from error
    return apache_beam
