"""Examples -> ids.

`[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut to a length but not padded: padding is for batches.
"""

import array
import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf.data.tsv import Example
from albert_tf.errors import FlagError
from albert_tf.tokenization import Tokenizer

# Bounds the memory for Python's lists of ids, which take ten times that of the arrays.
_EXAMPLES_AT_ONCE = 8192


@dataclasses.dataclass(frozen=True)
class Features:
    """What the encoder reads of n examples: ragged arrays, end to end, without padding.

    Attributes:
        input_ids: int32 (tokens of all examples,).
        lengths: int32 (n,), tokens of each example.
        first_lengths: int32 (n,), those of segment 0: `[CLS] a [SEP]`; the rest is segment 1.
        label_ids: int32 (n,); None where the examples have no labels.
    """

    input_ids: np.ndarray
    lengths: np.ndarray
    first_lengths: np.ndarray
    label_ids: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Where each example begins in `input_ids`: int64 (n,)."""
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    @functools.cached_property
    def max_length(self) -> int:
        """Tokens of the longest example."""
        return int(self.lengths.max())


def encode_examples(
    examples: Sequence[Example], labels: Sequence[str], tokenizer: Tokenizer, max_seq_length: int
) -> Features:
    """Turns examples into ids.

    A single text keeps its front; of a pair the longer text is cut, of equal ones the second. A
    second text without tokens makes no pair.

    Args:
        examples: all with a label, or none.
        labels: label names in the order of the class ids.
        tokenizer: text to ids.
        max_seq_length: tokens of an example at most, the special ones included.

    Raises:
        FlagError: `max_seq_length` leaves no room for a token of each text.
    """
    if max_seq_length < 5:
        raise FlagError(
            f"--max_seq_length={max_seq_length}: expected at least 5, for [CLS] a [SEP] b [SEP]"
        )
    input_ids, lengths, first_lengths = array.array("i"), array.array("i"), array.array("i")
    for first, second in _encode_segments(examples, tokenizer, max_seq_length):
        input_ids.extend(first + second)
        lengths.append(len(first) + len(second))
        first_lengths.append(len(first))
    label_ids = None
    if examples and examples[0].label is not None:
        class_ids = {label: class_id for class_id, label in enumerate(labels)}
        label_ids = np.array([class_ids[example.label] for example in examples], np.int32)
    return Features(
        input_ids=np.array(input_ids, np.int32),
        lengths=np.array(lengths, np.int32),
        first_lengths=np.array(first_lengths, np.int32),
        label_ids=label_ids,
    )


def _encode_segments(
    examples: Sequence[Example], tokenizer: Tokenizer, max_seq_length: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the ids of (segment 0, segment 1) of each example, special ones included."""
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    for start in range(0, len(examples), _EXAMPLES_AT_ONCE):
        block = examples[start : start + _EXAMPLES_AT_ONCE]
        texts_a = tokenizer.encode_batch([example.text_a for example in block])
        texts_b = tokenizer.encode_batch([example.text_b or "" for example in block])
        for ids_a, ids_b in zip(texts_a, texts_b, strict=True):
            if not ids_b:
                yield [cls_id, *ids_a[: max_seq_length - 2], sep_id], []
            else:
                length_a, length_b = pair_lengths(len(ids_a), len(ids_b), max_seq_length - 3)
                yield [cls_id, *ids_a[:length_a], sep_id], [*ids_b[:length_b], sep_id]


def pair_lengths(length_a: int, length_b: int, budget: int) -> tuple[int, int]:
    """Returns how much of each of two texts stays when both have to fit.

    The closed form of the original's rule: drop the last token of the longer text, of the second
    where they are equal, until both fit.

    Args:
        length_a: tokens of the first text.
        length_b: tokens of the second text.
        budget: tokens of both together, at most.
    """
    kept_b = min(length_b, max(budget // 2, budget - length_a))
    return min(length_a, budget - kept_b), kept_b
