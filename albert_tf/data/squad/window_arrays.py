"""SQuAD's windows in memory: read from records, without their padding."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.record_files import explain_bad_records, list_records
from albert_tf.data.record_spec import RecordSpec
from albert_tf.data.squad.questions import SquadExample
from albert_tf.data.squad.window_records import LABELS, OFFSETS, squad_record

# Bounds the memory of reading, where windows are padded.
_RECORDS_AT_ONCE = 1024

# Windows are numbered from here on, as in the original.
_FIRST_UNIQUE_ID = 1_000_000_000


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
        for name in OFFSETS:
            values = getattr(self, name)
            passages[name] = np.zeros(mask.shape, values.dtype)
            passages[name][mask] = values[tokens]
        return passages


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
        labels={name: columns[name] for name in LABELS},
    )


def count_answer_tokens(examples: Sequence[SquadExample], windows: SquadWindows) -> np.ndarray:
    """Returns how many tokens the shortest answer to each question has.

    Args:
        examples: n questions.
        windows: theirs.

    Returns:
        int (n,), 0 where no window holds an answer whole, or there is none.
    """
    counts = np.zeros(len(examples), np.int64)
    features = windows.features
    firsts = features.starts + features.first_lengths
    lasts = features.starts + features.lengths - 1  # [SEP]
    for index, first, last in zip(windows.example_indices, firsts, lasts, strict=True):
        starts, ends = windows.token_starts[first:last], windows.token_ends[first:last]
        for answer in set(filter(examples[index].stands, examples[index].answers)):
            start = answer.start + len(answer.text) - len(answer.text.lstrip())
            end = answer.start + len(answer.text.rstrip())
            if starts[0] <= start and end <= ends[-1]:
                before = np.searchsorted(ends, start, side="right")
                count = np.searchsorted(starts, end - 1, side="right") - before
                counts[index] = min(counts[index] or count, count)
    return counts
