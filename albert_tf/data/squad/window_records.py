"""Writes SQuAD's windows to disk: parallel processes make them once, and every run reads them.

A shard holds the windows of consecutive examples, depending on the number of examples alone. So any
number of workers writes the same bytes, and each holds few windows at a time.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.record_spec import Feature, RecordSpec
from albert_tf.data.record_writing import write_records
from albert_tf.data.squad.conventions import WindowConfig
from albert_tf.data.squad.questions import SquadExample
from albert_tf.data.squad.windows import Window, WindowMaker
from albert_tf.data.workers import run_tasks
from albert_tf.progress import Progress
from albert_tf.tokenization import Tokenizer

# Enough for several workers to share SQuAD's dev set, few enough for 64 files of its training set.
_EXAMPLES_PER_SHARD = 2048
# Writing fewer takes less time than starting a process.
_SHARDS_PER_WORKER = 8
# Number of windows that are serialised together.
_WINDOWS_PER_BATCH = 256

LABELS = ("start_positions", "end_positions", "is_impossible")
OFFSETS = ("token_starts", "token_ends", "token_is_max_context")


def squad_record(max_seq_length: int, with_offsets: bool) -> RecordSpec:
    """Returns the record of a window: the original's features without those that follow from others.

    Args:
        max_seq_length: S.
        with_offsets: whether it has the character offsets of the tokens, which answers need.
    """
    sequence = (max_seq_length,)
    features = (
        Feature("input_ids", sequence),
        Feature("input_mask", sequence),
        Feature("segment_ids", sequence),
        *(Feature(name, ()) for name in LABELS),
    )
    if with_offsets:
        offsets = (Feature(name, sequence) for name in OFFSETS)
        features += (Feature("example_indices", ()), *offsets)
    return RecordSpec(features)


def name_shards(prefix: str, num_examples: int) -> list[str]:
    """Returns the files for the windows of some examples: `<prefix>-00000-of-00064.tfrecord`."""
    count = max(1, -(-num_examples // _EXAMPLES_PER_SHARD))
    return [f"{prefix}-{number:05d}-of-{count:05d}.tfrecord" for number in range(count)]


def write_windows(
    examples: Sequence[SquadExample],
    tokenizer: Tokenizer,
    config: WindowConfig,
    with_offsets: bool,
    shards: Sequence[str],
    num_workers: int,
) -> None:
    """Writes the windows of examples.

    Args:
        examples: the examples.
        tokenizer: maps text to ids.
        config: sizes of the windows.
        with_offsets: whether the records have the character offsets of the tokens.
        shards: the files, from `name_shards`. Existing ones are complete and kept.
        num_workers: maximum number of processes.

    Raises:
        StoppedError: a worker died, or the file system refuses.
    """
    write_shard = _ShardWriter(tokenizer, config, with_offsets)
    missing = (shard for shard in _deal(examples, shards) if not tf.io.gfile.exists(shard.path))
    num_workers = min(num_workers, 1 + len(shards) // _SHARDS_PER_WORKER)
    with Progress("making windows", "questions", len(examples)) as progress:
        for count in run_tasks(write_shard, missing, num_workers):
            progress.update(count)


class _Shard(NamedTuple):
    """A file to write, its examples, and the index of the first one."""

    path: str
    examples: Sequence[SquadExample]
    first_index: int


def _deal(examples: Sequence[SquadExample], paths: Sequence[str]) -> Iterator[_Shard]:
    limits = [number * len(examples) // len(paths) for number in range(len(paths) + 1)]
    for path, first, last in zip(paths, limits, limits[1:], strict=False):
        yield _Shard(path, examples[first:last], first)


class _ShardWriter:
    """Writes shards and returns the number of examples of each."""

    def __init__(self, tokenizer: Tokenizer, config: WindowConfig, with_offsets: bool):
        self._make_windows = WindowMaker(tokenizer, config)
        self._spec = squad_record(config.max_seq_length, with_offsets)
        self._length = config.max_seq_length
        self._pad_id = tokenizer.pad_id

    def __call__(self, shard: _Shard) -> int:
        write_records(shard.path, self._records(shard))
        return len(shard.examples)

    def _records(self, shard: _Shard) -> Iterator[bytes]:
        windows = self._make_windows(shard.examples, shard.first_index)
        while batch := list(itertools.islice(windows, _WINDOWS_PER_BATCH)):
            values = [self._values(window) for window in batch]
            columns = {name: np.stack([each[name] for each in values]) for name in values[0]}
            yield from self._spec.serialize_batch(columns)

    def _values(self, window: Window) -> dict[str, np.ndarray]:
        ones = np.ones_like(window.input_ids)
        return {
            "input_ids": self._pad(window.input_ids, self._pad_id),
            "input_mask": self._pad(ones),
            "segment_ids": self._pad(np.arange(len(ones)) >= window.question_length),
            "start_positions": window.start_position,
            "end_positions": window.end_position,
            "is_impossible": window.is_impossible,
            "example_indices": window.example_index,
            "token_starts": self._pad(window.token_starts),
            "token_ends": self._pad(window.token_ends),
            "token_is_max_context": self._pad(window.token_is_max_context),
        }

    def _pad(self, values: np.ndarray, value: int = 0) -> np.ndarray:
        padded = np.full(self._length, value, np.int32)
        padded[: len(values)] = values
        return padded
