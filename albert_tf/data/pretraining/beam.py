"""Makes pre-training data as an Apache Beam pipeline, on many machines.

The same code as in `shards` turns chunks of the corpus into records, so the instances are the same. Their
shards and order depend on the runner's own shuffle. One worker reads the files, because a chunk begins
where the one before ends; all of them make records.

Apache Beam is imported where it is used: it takes seconds, and few need it.
"""

import json
import os
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.data.pretraining.corpus import Chunk
from albert_tf.data.pretraining.input_files import InputFile, expect_unchanged
from albert_tf.data.pretraining.instances import ChunkMaker, PretrainingDataConfig
from albert_tf.data.pretraining.statistics import MadeData, PretrainingDataStats
from albert_tf.data.record_writing import Compression
from albert_tf.errors import InputError
from albert_tf.tokenization import Tokenizer

_READING, _STATS = "reading", "stats"


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
        shards: files to write, named `x-00000-of-00002.y` if there are two.
        compression: compression of the shards.
        folder: existing folder for the counts, in which all workers can write.
        runner: name of Beam's runner.
        runner_options: its options, e.g. `--project=name`.

    Raises:
        InputError: Apache Beam is not installed, or there are fewer instances than shards. Mistakes in
            the corpus itself raise the runner's own error.
        StoppedError: an input file changed while it was read.
    """
    beam = _import_beam()
    from apache_beam.options.pipeline_options import PipelineOptions

    paths = [file.path for file in inputs]
    stem, suffix = os.path.splitext(shards[0])
    is_sharded = len(shards) > 1
    with (
        expect_unchanged(inputs),
        beam.Pipeline(runner, PipelineOptions(list(runner_options))) as pipeline,
    ):
        read = (
            pipeline
            | beam.Create([paths])
            | "Read" >> beam.FlatMap(_Reader(config)).with_outputs(_READING, main="chunks")
        )
        made = (
            read.chunks
            | beam.Reshuffle()
            | "Make" >> beam.FlatMap(_Maker(tokenizer, config)).with_outputs(_STATS, main="records")
        )
        _ = (
            made.records
            | "Shuffle" >> beam.Reshuffle()
            | beam.io.WriteToTFRecord(
                stem.removesuffix(f"-00000-of-{len(shards):05d}"),
                file_name_suffix=suffix,
                num_shards=len(shards),
                shard_name_template="-SSSSS-of-NNNNN" if is_sharded else "",
                compression_type=_beam_compression(beam, compression),
            )
        )
        _write_json(beam, read.reading, folder, _READING)
        total = made.stats | beam.CombineGlobally(_add)
        _write_json(beam, total, folder, _STATS)
    stats = PretrainingDataStats.from_json_dict(files.read_json(_json_file(folder, _STATS)))
    stats.check(config.segments, paths, len(shards))
    reading = files.read_json(_json_file(folder, _READING))
    return MadeData(stats, reading["sha256"], reading["replaced_lines"])


def _import_beam() -> types.ModuleType:
    try:
        import apache_beam
    except ImportError as error:
        raise InputError(
            "needs Apache Beam, which is not installed: pip install 'apache-beam[tfrecord]'"
        ) from error
    return apache_beam


class _Reader:
    """Yields the chunks of files, then the files' hashes and counts."""

    def __init__(self, config: PretrainingDataConfig):
        self._config = config

    def __call__(self, paths: Sequence[str]) -> Iterator[Any]:
        reader = self._config.read(paths)
        yield from reader.chunks()
        known = {"sha256": reader.sha256, "replaced_lines": reader.replaced_lines}
        yield _import_beam().pvalue.TaggedOutput(_READING, known)


class _Maker:
    """Yields the records of a chunk, then its counts."""

    def __init__(self, tokenizer: Tokenizer, config: PretrainingDataConfig):
        self._make_records = ChunkMaker(tokenizer, config)

    def __call__(self, chunk: Chunk) -> Iterator[Any]:
        stats = PretrainingDataStats()
        for _, record in self._make_records(chunk, stats):
            yield record
        yield _import_beam().pvalue.TaggedOutput(_STATS, stats.to_json_dict())


def _add(stats: Iterable[dict[str, Any]]) -> dict[str, Any]:
    total = PretrainingDataStats()
    for part in stats:
        total.add(PretrainingDataStats.from_json_dict(part))
    return total.to_json_dict()


def _write_json(beam: types.ModuleType, values: Any, folder: str, name: str) -> None:
    """Writes the single element of a collection."""
    path = _json_file(folder, name)
    texts = values | f"To JSON: {name}" >> beam.Map(json.dumps)
    _ = texts | f"Write: {name}" >> beam.io.WriteToText(path, shard_name_template="", num_shards=1)


def _json_file(folder: str, name: str) -> str:
    return os.path.join(folder, f"{name}.json")


def _beam_compression(beam: types.ModuleType, compression: Compression) -> str:
    kinds = beam.io.filesystem.CompressionTypes
    return {"none": kinds.UNCOMPRESSED, "gzip": kinds.GZIP}[compression]
