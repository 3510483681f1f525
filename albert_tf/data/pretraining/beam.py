"""Pre-training data as an Apache Beam pipeline: what `two_passes` makes, on many machines.

Blocks of the corpus become records by the same code, so the instances are the same; which shard has
which, and in what order, is left to the runner's own shuffle. One worker reads the files, because a
block goes on where the one before ends; all of them make records.

Apache Beam is imported where it is used: it takes seconds, and few need it.
"""

import json
import os
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.data.pretraining.chunks import (
    BlockMaker,
    MadeData,
    PretrainingDataRule,
    check_instances,
)
from albert_tf.data.pretraining.corpus import (
    Block,
    CorpusReader,
    CorpusRule,
    InputFile,
    expect_unchanged,
)
from albert_tf.data.pretraining.statistics import PretrainingDataStats
from albert_tf.data.record_writing import Compression
from albert_tf.errors import FlagError
from albert_tf.tokenization import Tokenizer

_READING, _STATS = "reading", "stats"


def make_pretraining_data(
    inputs: Sequence[InputFile],
    tokenizer: Tokenizer,
    rule: PretrainingDataRule,
    shards: Sequence[str],
    compression: Compression,
    folder: str,
    runner: str,
    runner_options: Sequence[str],
) -> MadeData:
    """Makes the records of a corpus, all or nothing.

    Args:
        inputs: the files of the corpus, which all workers can read.
        tokenizer: makes the pieces.
        rule: says what is made.
        shards: the files to write, named `x-00000-of-00002.y` where there are two.
        compression: of these files.
        folder: exists, and all workers can write there; the counts are left there.
        runner: name of Beam's runner.
        runner_options: its options, e.g. `--project=name`.

    Raises:
        FlagError: Apache Beam is not installed.
        InputError: there are fewer instances than shards. What is wrong with the corpus itself comes
            as the runner's own error.
        StoppedError: a file of the corpus was changed while it was read.
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
            | "Read" >> beam.FlatMap(_Reader(rule.corpus)).with_outputs(_READING, main="blocks")
        )
        made = (
            read.blocks
            | beam.Reshuffle()
            | "Make" >> beam.FlatMap(_Maker(tokenizer, rule)).with_outputs(_STATS, main="records")
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
    check_instances(stats, rule.segments, paths, len(shards))
    reading = files.read_json(_json_file(folder, _READING))
    return MadeData(stats, reading["sha256"], reading["replaced_lines"])


def _import_beam() -> types.ModuleType:
    try:
        import apache_beam
    except ImportError as error:
        raise FlagError(
            "--runner: expected Apache Beam to be installed: pip install 'apache-beam[tfrecord]'"
        ) from error
    return apache_beam


class _Reader:
    """Yields the blocks of files, and what is known of the files at their end."""

    def __init__(self, rule: CorpusRule):
        self._rule = rule

    def __call__(self, paths: Sequence[str]) -> Iterator[Any]:
        reader = CorpusReader(paths, self._rule)
        yield from reader.blocks()
        known = {"sha256": reader.sha256, "replaced_lines": reader.replaced_lines}
        yield _import_beam().pvalue.TaggedOutput(_READING, known)


class _Maker:
    """Yields the records of a block, and its counts."""

    def __init__(self, tokenizer: Tokenizer, rule: PretrainingDataRule):
        self._make_records = BlockMaker(tokenizer, rule)

    def __call__(self, block: Block) -> Iterator[Any]:
        stats = PretrainingDataStats()
        for _, record in self._make_records(block, stats):
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
