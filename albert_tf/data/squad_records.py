"""Windows on disk and back: made once by parallel processes, read by every run.

A shard holds the windows of consecutive examples. Which ones depends on the number of examples alone, so
any number of workers writes the same bytes, each holding one window at a time.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.features import Features
from albert_tf.data.record_spec import Feature, RecordSpec
from albert_tf.data.record_writing import write_records
from albert_tf.data.records import explain_bad_records, list_records
from albert_tf.data.squad import SquadExample
from albert_tf.data.squad_features import Window, WindowMaker, WindowRule
from albert_tf.data.workers import run_tasks
from albert_tf.progress import Progress
from albert_tf.tokenization import AlbertTokenizer

# Enough for several workers to share SQuAD's dev set, few enough for 64 files of its training set.
_EXAMPLES_PER_SHARD = 2048
# A process takes longer to start than these take to write.
_SHARDS_PER_WORKER = 8
# Bounds the memory of reading, where windows are padded.
_RECORDS_AT_ONCE = 1024

# Windows are numbered from here on, as in the original.
_FIRST_UNIQUE_ID = 1_000_000_000

_LABELS = ("start_positions", "end_positions", "is_impossible")
_OFFSETS = ("token_starts", "token_ends", "token_is_max_context")


@dataclasses.dataclass(frozen=True)
class SquadWindows:
    """All windows of some examples, and where their tokens come from, in the order of the examples.

    Attributes:
        features: what the model reads of n windows; t tokens in all.
        example_indices: int32 (n,), which example each window is of.
        token_starts: int32 (t,), along `features.input_ids`: the first character of the passage that each
            token stands for.
        token_ends: int32 (t,), the character after the last; no token but the passage's has any.
        token_is_max_context: bool (t,), whether no other window of the example shows more of what is
            around the token.
    """

    features: Features
    example_indices: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray
    token_is_max_context: np.ndarray

    @property
    def unique_ids(self) -> np.ndarray:
        """The number of each window, as the original counts them: int64 (n,)."""
        return _FIRST_UNIQUE_ID + np.arange(len(self.features))

    def passages(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Returns where the tokens of some windows come from, beside a batch of them.

        Args:
            rows: int (B,), which windows.
            length: S, what the batch is padded to.

        Returns:
            `unique_ids` and `example_indices` (B,); `token_starts`, `token_ends` and
            `token_is_max_context` (B, S), zeros where the batch has padding.
        """
        positions = np.arange(length)
        mask = positions < self.features.lengths[rows][:, None]
        tokens = (self.features.starts[rows][:, None] + positions)[mask]
        passages = {
            "unique_ids": self.unique_ids[rows],
            "example_indices": self.example_indices[rows],
        }
        for name in _OFFSETS:
            values = getattr(self, name)
            passages[name] = np.zeros(mask.shape, values.dtype)
            passages[name][mask] = values[tokens]
        return passages


def squad_record(
    max_seq_length: int, with_offsets: bool, vocab_size: int | None = None
) -> RecordSpec:
    """Returns the record of a window: the original's features, less those that follow from the others.

    Args:
        max_seq_length: S.
        with_offsets: whether it tells where its tokens come from, which answers need and training does
            not.
        vocab_size: V; None where it is not known.
    """
    sequence = (max_seq_length,)
    features = (
        Feature("input_ids", sequence, vocab_size=vocab_size),
        Feature("input_mask", sequence),
        Feature("segment_ids", sequence),
        *(Feature(name, ()) for name in _LABELS),
    )
    if with_offsets:
        offsets = (Feature(name, sequence) for name in _OFFSETS)
        features += (Feature("example_indices", ()), *offsets)
    return RecordSpec(features)


def name_shards(prefix: str, num_examples: int) -> list[str]:
    """Returns the files that hold the windows of some examples: `<prefix>-00000-of-00064.tfrecord`."""
    count = max(1, -(-num_examples // _EXAMPLES_PER_SHARD))
    return [f"{prefix}-{number:05d}-of-{count:05d}.tfrecord" for number in range(count)]


def write_windows(
    examples: Sequence[SquadExample],
    tokenizer: AlbertTokenizer,
    rule: WindowRule,
    with_offsets: bool,
    shards: Sequence[str],
    num_workers: int,
) -> None:
    """Writes the windows of examples.

    Args:
        examples: the examples.
        tokenizer: text to ids.
        rule: how to cut.
        with_offsets: whether the records tell where tokens come from.
        shards: the files, from `name_shards`; those that exist are complete and stay.
        num_workers: processes that work at it, at most.

    Raises:
        StoppedError: a worker died, or the file system refuses.
    """
    make_work = functools.partial(_ShardWriter, tokenizer, rule, with_offsets)
    missing = (shard for shard in _deal(examples, shards) if not tf.io.gfile.exists(shard.path))
    num_workers = min(num_workers, 1 + len(shards) // _SHARDS_PER_WORKER)
    with Progress("making windows", "questions", len(examples)) as progress:
        for count in run_tasks(make_work, missing, num_workers):
            progress.update(count)


class _Shard(NamedTuple):
    """A file to write, the examples in it, and the number of the first of them."""

    path: str
    examples: Sequence[SquadExample]
    first_index: int


def _deal(examples: Sequence[SquadExample], paths: Sequence[str]) -> Iterator[_Shard]:
    limits = [number * len(examples) // len(paths) for number in range(len(paths) + 1)]
    for path, first, last in zip(paths, limits, limits[1:], strict=False):
        yield _Shard(path, examples[first:last], first)


class _ShardWriter:
    """Writes shards, and returns how many examples each has."""

    def __init__(self, tokenizer: AlbertTokenizer, rule: WindowRule, with_offsets: bool):
        self._make_windows = WindowMaker(tokenizer, rule)
        self._spec = squad_record(rule.max_seq_length, with_offsets)
        self._length = rule.max_seq_length
        self._pad_id = tokenizer.pad_id

    def __call__(self, shard: _Shard) -> int:
        windows = self._make_windows(shard.examples, shard.first_index)
        records = (self._spec.serialize(self._values(window)) for window in windows)
        write_records(shard.path, records)
        return len(shard.examples)

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


def read_features(paths: Sequence[str], max_seq_length: int) -> Features:
    """Reads what training needs, 4 bytes a token: SQuAD 2.0's training windows take 100 MB.

    Args:
        paths: TFRecord files of windows, in their order.
        max_seq_length: S, as they were made.

    Raises:
        InputError: a file is damaged or its records are others.
    """
    return _to_features(_read(paths, squad_record(max_seq_length, with_offsets=False)))


def read_windows(paths: Sequence[str], max_seq_length: int) -> SquadWindows:
    """Reads what answers need; see `read_features`. The records have to have offsets."""
    columns = _read(paths, squad_record(max_seq_length, with_offsets=True))
    return SquadWindows(
        features=_to_features(columns),
        example_indices=columns["example_indices"],
        token_starts=columns["token_starts"],
        token_ends=columns["token_ends"],
        token_is_max_context=columns["token_is_max_context"].astype(bool),
    )


def _read(paths: Sequence[str], spec: RecordSpec) -> dict[str, np.ndarray]:
    """Returns each feature of all records without padding, lengths in place of mask and segments."""
    records = list_records(paths).flat_map(tf.data.TFRecordDataset).batch(_RECORDS_AT_ONCE)
    batches = records.map(spec.parse, num_parallel_calls=tf.data.AUTOTUNE).as_numpy_iterator()
    with explain_bad_records(paths, spec):
        parts = [_without_padding(batch) for batch in batches]
    # So that files without records have each column, too.
    nothing = {feature.name: np.zeros((0, *feature.shape), np.int32) for feature in spec.features}
    parts.insert(0, _without_padding(nothing))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _without_padding(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    mask = batch.pop("input_mask").astype(bool)  # (B, S)
    lengths = mask.sum(axis=1, dtype=np.int32)
    first_lengths = lengths - batch.pop("segment_ids").sum(axis=1, dtype=np.int32)
    columns = {name: array[mask] if array.ndim == 2 else array for name, array in batch.items()}
    return columns | {"lengths": lengths, "first_lengths": first_lengths}


def _to_features(columns: dict[str, np.ndarray]) -> Features:
    return Features(
        input_ids=columns["input_ids"],
        lengths=columns["lengths"],
        first_lengths=columns["first_lengths"],
        labels={name: columns[name] for name in _LABELS},
    )
