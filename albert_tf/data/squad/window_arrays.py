"""SQuAD's windows as arrays without padding: read from records, or made in memory."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.record_files import explain_bad_records, list_records
from albert_tf.data.record_spec import RecordSpec
from albert_tf.data.squad.conventions import WindowConfig
from albert_tf.data.squad.questions import SquadExample
from albert_tf.data.squad.window_records import LABELS, OFFSETS, squad_record
from albert_tf.data.squad.windows import WindowMaker
from albert_tf.tokenization import Tokenizer

# Bounds the memory of the padded windows.
_RECORDS_AT_ONCE = 1024

# Number of the first window, as in the original.
_FIRST_UNIQUE_ID = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class PassageWindows:
    """The offsets of the tokens of W windows in their passages, padded to S.

    Attributes:
        unique_ids: int (W,), ascending with the examples and within a passage. Of equally good answers,
            that of the lower id is chosen, whatever the order of the windows.
        example_indices: int (W,), index of each window's example.
        token_starts: int (W, S), first character of each token in the passage.
        token_ends: int (W, S), the character after the last; 0 for tokens outside the passage.
        token_is_max_context: int or bool (W, S), whether no other window shows more context around a
            token.
    """

    unique_ids: np.ndarray
    example_indices: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray
    token_is_max_context: np.ndarray


@dataclasses.dataclass(frozen=True)
class SquadWindows:
    """All windows of some examples, in the order of the examples, with the offsets of their tokens.

    Attributes:
        features: ids of n windows with t tokens in total.
        example_indices: int32 (n,), index of each window's example.
        token_starts: int32 (t,), along `features.input_ids`: first character of each token in the
            passage.
        token_ends: int32 (t,), the character after the last; 0 for tokens outside the passage.
        token_is_max_context: bool (t,), whether no other window of the example shows more context around
            the token.
    """

    features: Features
    example_indices: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray
    token_is_max_context: np.ndarray

    @property
    def unique_ids(self) -> np.ndarray:
        """The number of each window, counted like in the original: int64 (n,)."""
        return _FIRST_UNIQUE_ID + np.arange(len(self.features))

    def passages(self, rows: np.ndarray, length: int) -> PassageWindows:
        """Returns the offsets of some windows, with zeros for padding.

        Args:
            rows: int (W,), the windows.
            length: S, length to pad to.
        """
        mask, tokens = self.features.tokens_of(rows, length)
        offsets = {}
        for name in OFFSETS:
            values = getattr(self, name)
            offsets[name] = np.zeros(mask.shape, values.dtype)
            offsets[name][mask] = values[tokens]
        return PassageWindows(self.unique_ids[rows], self.example_indices[rows], **offsets)


def read_features(paths: Sequence[str], max_seq_length: int) -> Features:
    """Reads the ids and labels for training: 4 bytes per token, 100 MB for SQuAD 2.0's training set.

    Args:
        paths: TFRecord files of windows, in order.
        max_seq_length: S of the records.

    Raises:
        InputError: a file is damaged or has other records.
    """
    return _to_features(_read(paths, squad_record(max_seq_length, with_offsets=False)))


def read_windows(paths: Sequence[str], max_seq_length: int) -> SquadWindows:
    """Reads windows with offsets, for answers; see `read_features`."""
    columns = _read(paths, squad_record(max_seq_length, with_offsets=True))
    return SquadWindows(
        features=_to_features(columns),
        example_indices=columns["example_indices"],
        token_starts=columns["token_starts"],
        token_ends=columns["token_ends"],
        token_is_max_context=columns["token_is_max_context"].astype(bool),
    )


def make_windows(
    examples: Sequence[SquadExample], tokenizer: Tokenizer, config: WindowConfig
) -> SquadWindows:
    """Makes the windows of a few questions in memory, with offsets and without labels.

    Args:
        examples: the questions.
        tokenizer: maps text to ids with character offsets.
        config: sizes of the windows.
    """
    windows = list(WindowMaker(tokenizer, config)(examples))

    def joined(name: str) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.int32), *(getattr(each, name) for each in windows)])

    return SquadWindows(
        features=Features(
            input_ids=joined("input_ids"),
            lengths=np.array([len(each.input_ids) for each in windows], np.int32),
            first_lengths=np.array([each.question_length for each in windows], np.int32),
        ),
        example_indices=np.array([each.example_index for each in windows], np.int32),
        token_starts=joined("token_starts"),
        token_ends=joined("token_ends"),
        token_is_max_context=joined("token_is_max_context").astype(bool),
    )


def _read(paths: Sequence[str], spec: RecordSpec) -> dict[str, np.ndarray]:
    """Returns each feature of all records without padding, with lengths instead of mask and segments."""
    records = list_records(paths).flat_map(tf.data.TFRecordDataset).batch(_RECORDS_AT_ONCE)
    batches = records.map(spec.parse, num_parallel_calls=tf.data.AUTOTUNE).as_numpy_iterator()
    with explain_bad_records(paths, spec):
        parts = [_without_padding(batch) for batch in batches]
    # Files without records need each column, too.
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
    """Returns the number of tokens of the shortest answer to each question.

    Args:
        examples: n questions.
        windows: windows of the questions.

    Returns:
        int (n,), 0 if no window holds a whole answer, or there is none.
    """
    counts = np.zeros(len(examples), np.int64)
    features = windows.features
    firsts = features.starts + features.first_lengths
    lasts = features.starts + features.lengths - 1  # [SEP]
    for index, first, last in zip(windows.example_indices, firsts, lasts, strict=True):
        starts, ends = windows.token_starts[first:last], windows.token_ends[first:last]
        for answer in set(filter(examples[index].is_at_offset, examples[index].answers)):
            start = answer.start + len(answer.text) - len(answer.text.lstrip())
            end = answer.start + len(answer.text.rstrip())
            if starts[0] <= start and end <= ends[-1]:
                before = np.searchsorted(ends, start, side="right")
                count = np.searchsorted(starts, end - 1, side="right") - before
                counts[index] = min(counts[index] or count, count)
    return counts
