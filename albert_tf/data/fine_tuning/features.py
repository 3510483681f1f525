"""Converts examples to ids: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

Texts are truncated but not padded; batches are. A multiple-choice example is one text per choice.
"""

import array
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from albert_tf.data.fine_tuning.cells import LABEL_SEPARATOR
from albert_tf.data.fine_tuning.examples import (
    Example,
    Labels,
    MultiLabels,
    ScoreRange,
)
from albert_tf.tokenization import Tokenizer, packing

# Bounds the memory of Python's lists of ids, which take ten times that of the arrays.
_EXAMPLES_AT_ONCE = 8192


@dataclasses.dataclass(frozen=True)
class Features:
    """The ids of n examples as ragged arrays, end to end, without padding.

    An example is one text or, with choices or as a tuple, C consecutive texts. t is the number of texts,
    n or n * C.
    """

    input_ids: np.ndarray  # int32 (tokens of all texts,)
    lengths: np.ndarray  # number of tokens of each text, int32 (t,)
    first_lengths: np.ndarray  # of segment 0, `[CLS] a [SEP]`; the rest is segment 1; int32 (t,)
    # Arrays (n,) by name, none without labels. `label_ids` are int32, or float32 for scores, or float32
    # (n, k) of 0 and 1 for sets of k labels. If some examples have no label, `label_weights` are float32
    # (n,), 1 for those that have one and 0 for others.
    labels: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    # By name, int32 along `input_ids`, -1 for a token without a label.
    token_labels: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    num_choices: int | None = None  # C; None if an example is one text
    num_truncated: int = 0  # number of texts that lost tokens

    def __len__(self) -> int:
        return len(self.lengths) // (self.num_choices or 1)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Index in `input_ids` of the first token of each text: int64 (t,)."""
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    @functools.cached_property
    def max_length(self) -> int:
        """Number of tokens of the longest text."""
        return int(self.lengths.max())

    @functools.cached_property
    def example_lengths(self) -> np.ndarray:
        """Number of tokens of the longest text of each example: int32 (n,)."""
        return self.lengths.reshape(len(self), -1).max(axis=1)

    def texts_of(self, examples: np.ndarray) -> np.ndarray:
        """Returns the texts of some examples, int (B,): int (B,) or (B, C)."""
        if self.num_choices is None:
            return examples
        return examples[:, None] * self.num_choices + np.arange(self.num_choices)

    def batch_shape(self, batch_size: int | None) -> tuple[int | None, ...]:
        """Returns the shape of `texts_of` B examples."""
        return (batch_size,) if self.num_choices is None else (batch_size, self.num_choices)

    def tokens_of(self, texts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns where the tokens of some texts, int (...), are when padded to the length S.

        These are bool (..., S), which positions hold a token, and int64 (tokens,), their indices in
        `input_ids`.
        """
        positions = np.arange(length)
        mask = positions < self.lengths[texts][..., None]
        return mask, (self.starts[texts][..., None] + positions)[mask]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowFeatures(Features):
    """Windows of texts of any length."""

    example_indices: np.ndarray  # index of each window's example, ascending: int32 (n,)


class TupleFeatures(Features):
    """Tuples of C texts, such as pairs, each of which is a row of its own in a batch.

    The batch has C B rows, a tuple after the other.
    """

    def texts_of(self, examples: np.ndarray) -> np.ndarray:
        """Returns the texts of some tuples, int (B,): int (C B,)."""
        return super().texts_of(examples).ravel()

    def batch_shape(self, batch_size: int | None) -> tuple[int | None, ...]:
        """Returns the shape of `texts_of` B tuples."""
        assert self.num_choices is not None, "a tuple has its texts"
        return (None if batch_size is None else self.num_choices * batch_size,)


def encode_examples(
    examples: Sequence[Example], labels: Labels, tokenizer: Tokenizer, max_seq_length: int
) -> Features:
    """Converts examples of one or two texts to ids.

    A single text keeps its front. In a pair the longer text is truncated, or the second if both are
    equally long. An empty second text makes no pair. All examples have a label, or none. A sequence has
    at most `max_seq_length` tokens, at least 5, including the special ones.
    """

    def cut(length_a: int, length_b: int) -> tuple[int, int]:
        special_tokens = 3 if length_b else 2
        return packing.pair_lengths(length_a, length_b, max_seq_length - special_tokens)

    pairs = ((example.text_a, example.text_b or "") for example in examples)
    return _encode(pairs, tokenizer, cut, _named_labels(examples, labels))


def encode_long_texts(
    examples: Sequence[Example], labels: Labels, tokenizer: Tokenizer, max_seq_length: int
) -> WindowFeatures:
    """Converts single texts of any length to windows, which have the labels of their texts.

    `packing.window_begin` has the rule. A window has at most `max_seq_length` tokens, special tokens
    included.
    """
    size = max_seq_length - 2
    input_ids, lengths, indices = arrays = [array.array("i") for _ in range(3)]
    for first in range(0, len(examples), _EXAMPLES_AT_ONCE):
        texts = [example.text_a for example in examples[first : first + _EXAMPLES_AT_ONCE]]
        for index, ids in enumerate(tokenizer.encode_batch(texts), first):
            count = packing.count_windows(len(ids), size)
            begins = (packing.window_begin(len(ids), count, number) for number in range(count + 1))
            for begin, end in itertools.pairwise(begins):
                input_ids.extend([tokenizer.cls_id, *ids[begin:end], tokenizer.sep_id])
                lengths.append(end - begin + 2)
                indices.append(index)
    all_ids, counts, owners = (np.array(values, np.int32) for values in arrays)
    window_labels = {
        name: values[owners] for name, values in _named_labels(examples, labels).items()
    }
    return WindowFeatures(all_ids, counts, counts, window_labels, example_indices=owners)


def encode_choices(
    examples: Sequence[Example],
    labels: Sequence[str],
    tokenizer: Tokenizer,
    max_seq_length: int,
    max_qa_length: int,
) -> Features:
    """Converts multiple-choice examples to ids: for each choice the passage, and question and choice.

    As in the original, question and choice together keep their last tokens, and the passage keeps the
    front that fits next to them.

    All examples have a label, or none. `labels` are the letters of the choices, of which all have the
    same number.
    """
    packing.check_max_seq_length(
        max_seq_length, max_qa_length + 4, "[CLS] a [SEP] max_qa_length [SEP]"
    )
    cut = functools.partial(
        packing.choice_lengths, max_seq_length=max_seq_length, max_qa_length=max_qa_length
    )
    pairs = (
        (example.text_a, packing.join_choice(example.text_b or "", choice))
        for example in examples
        for choice in example.choices
    )
    features = _encode(pairs, tokenizer, cut, _named_labels(examples, labels), keep_end_of_b=True)
    return dataclasses.replace(features, num_choices=len(labels))


def encode_tuples(
    examples: Sequence[Example], labels: Labels, tokenizer: Tokenizer, max_seq_length: int
) -> TupleFeatures:
    """Converts the front of each text of the examples to ids, `[CLS] a [SEP]` and `[CLS] b [SEP]`.

    The texts are both texts of pairs and, if the examples have one, a negative.
    """
    has_negative = any(example.negative is not None for example in examples[:1])
    texts = [
        Example("", text or "")
        for example in examples
        for text in (example.text_a, example.text_b, example.negative)[: 2 + has_negative]
    ]
    features = encode_examples(
        examples=texts, labels=(), tokenizer=tokenizer, max_seq_length=max_seq_length
    )
    return TupleFeatures(
        features.input_ids,
        features.lengths,
        features.first_lengths,
        _named_labels(examples, labels),
        num_choices=2 + has_negative,
        num_truncated=features.num_truncated,
    )


def _encode(
    pairs: Iterable[tuple[str, str]],
    tokenizer: Tokenizer,
    cut: Callable[[int, int], tuple[int, int]],
    labels: Mapping[str, np.ndarray],
    keep_end_of_b: bool = False,
) -> Features:
    """Converts pairs of texts to ids.

    `cut` maps the lengths of both texts to the lengths to keep: the front or, of the second text with
    `keep_end_of_b`, the end.
    """
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    input_ids, lengths, first_lengths = arrays = [array.array("i") for _ in range(3)]
    num_truncated = 0
    pairs = iter(pairs)
    while part := list(itertools.islice(pairs, _EXAMPLES_AT_ONCE)):
        texts_a, texts_b = zip(*part, strict=True)
        encoded = map(tokenizer.encode_batch, (list(texts_a), list(texts_b)))
        for ids_a, ids_b in zip(*encoded, strict=True):
            length_a, length_b = cut(len(ids_a), len(ids_b))
            num_truncated += (length_a, length_b) != (len(ids_a), len(ids_b))
            ids_b = ids_b[len(ids_b) - length_b :] if keep_end_of_b else ids_b[:length_b]
            first = [cls_id, *ids_a[:length_a], sep_id]
            second = [*ids_b, sep_id] if ids_b else []
            input_ids.extend(first + second)
            lengths.append(len(first) + len(second))
            first_lengths.append(len(first))
    all_ids, counts, first_counts = (np.array(values, np.int32) for values in arrays)
    return Features(
        input_ids=all_ids,
        lengths=counts,
        first_lengths=first_counts,
        labels=labels,
        num_truncated=num_truncated,
    )


def strip_padding(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns `input_ids`, `lengths` and `first_lengths` of `Features` for inputs, int32 (t, S) each."""
    lengths, second_lengths = (
        inputs[name].sum(axis=1, dtype=np.int32) for name in ("input_mask", "segment_ids")
    )
    input_ids = inputs["input_ids"][inputs["input_mask"] > 0]
    return {
        "input_ids": input_ids,
        "lengths": lengths,
        "first_lengths": lengths - second_lengths,
    }


def concatenate(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Joins the arrays of one or more parts by their names."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def label_ids(examples: Sequence[Example], labels: Labels) -> np.ndarray:
    """Returns the labels of n examples, which have labels, as `Features.labels` has them."""
    given = [example.known_label for example in examples]
    if isinstance(labels, ScoreRange):
        return np.array([float(score) for score in given], np.float32)
    if isinstance(labels, MultiLabels):
        assert labels.names is not None, "known from the training set on"
        rows = [names.split(LABEL_SEPARATOR) for names in given]
        return np.array([[name in row for name in labels.names] for row in rows], np.float32)
    assert labels is not None, "known from the training set on"
    class_ids = {label: class_id for class_id, label in enumerate(labels)}
    return np.array([class_ids[label] for label in given], np.int32)


def _named_labels(examples: Sequence[Example], labels: Labels) -> dict[str, np.ndarray]:
    """Returns the labels of n examples, with `label_weights` if some of them have none."""
    has_label = np.array([example.label is not None for example in examples], bool)
    if not has_label.any():
        return {}
    given = label_ids([example for example in examples if example.label is not None], labels)
    if has_label.all():
        return {"label_ids": given}
    ids = np.zeros((len(examples), *given.shape[1:]), given.dtype)
    ids[has_label] = given
    return {"label_ids": ids, "label_weights": has_label.astype(np.float32)}


def with_labels(features: Features, **labels: np.ndarray) -> Features:
    """Returns features with further labels of their examples, arrays (n, ...)."""
    if isinstance(features, WindowFeatures):
        labels = {name: values[features.example_indices] for name, values in labels.items()}
    return dataclasses.replace(features, labels={**features.labels, **labels})
