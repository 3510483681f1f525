"""Record specifications, for writing and parsing.

A record is a serialized `tf.train.Example`. Writer and reader share a `RecordSpec`, and files from
elsewhere are checked against it.

Writing needs only NumPy: the bytes of many records are joined at once, which is several times as fast as
protobuf's Python interface. TensorFlow is imported when records are parsed.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of a record.

    Attributes:
        name: key in the `tf.train.Example`.
        shape: shape in one record.
        dtype: type after parsing, `np.int32` or `np.float32`. A `tf.train.Example` stores int64.
        vocab_size: for ids, the size of their vocabulary; None for other features.
    """

    name: str
    shape: tuple[int, ...]
    dtype: type[np.generic] = np.int32
    vocab_size: int | None = None

    @functools.cached_property
    def size(self) -> int:
        """Number of values in a record."""
        return math.prod(self.shape)

    @functools.cached_property
    def kind(self) -> str:
        """The field of `tf.train.Feature` for the values."""
        return "float_list" if np.dtype(self.dtype).kind == "f" else "int64_list"


@dataclasses.dataclass(frozen=True)
class RecordSpec:
    """The features of a record.

    Attributes:
        features: the features, with distinct names.
    """

    features: tuple[Feature, ...]

    def serialize(self, values: Mapping[str, np.ndarray]) -> bytes:
        """Returns one record; equal values give equal bytes.

        Args:
            values: array of the declared shape for each feature.

        Raises:
            ValueError: an array has another shape.
        """
        columns = {name: np.asarray(array)[np.newaxis] for name, array in values.items()}
        (record,) = self.serialize_batch(columns)
        return record

    def serialize_batch(self, columns: Mapping[str, np.ndarray]) -> list[bytes]:
        """Returns N records; equal values give equal bytes.

        Args:
            columns: array (N, *shape) for each feature.

        Raises:
            ValueError: an array has another shape.
        """
        entries: list[_Part] = []
        # In the order of their names, as protobuf writes a map deterministically.
        for feature in sorted(self.features, key=lambda feature: feature.name):
            array = np.asarray(columns[feature.name])
            if array.shape[1:] != feature.shape:
                raise ValueError(
                    f"{feature.name}: received shape {array.shape[1:]}, expected {feature.shape}"
                )
            entries += _delimited(_MAP_ENTRY, _map_entry(feature, array.reshape(len(array), -1)))
        return _join(_delimited(_EXAMPLE_FEATURES, entries))

    def parse(self, serialized: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """Parses a record or a batch; for use in `tf.data.Dataset.map`, faster after `batch`.

        Args:
            serialized: string, () or (B,).

        Returns:
            A tensor for each feature, of the declared dtype, of shape `shape` or (B, *shape).
        """
        import tensorflow as tf

        columns = {
            feature.name: tf.io.FixedLenFeature(
                feature.shape, tf.float32 if feature.kind == "float_list" else tf.int64
            )
            for feature in self.features
        }
        parsed = tf.io.parse_example(serialized, columns)
        # An id out of range is an error on CPU, but silent on GPU and TPU.
        checks = [
            check
            for feature in self.features
            if feature.vocab_size is not None
            for check in (
                tf.debugging.assert_non_negative(parsed[feature.name]),
                tf.debugging.assert_less(
                    parsed[feature.name], tf.cast(feature.vocab_size, tf.int64)
                ),
            )
        ]
        with tf.control_dependencies(checks):
            return {
                feature.name: tf.cast(parsed[feature.name], feature.dtype)
                for feature in self.features
            }

    def find_fault(self, serialized: bytes) -> str | None:
        """Returns what is wrong with a record, or None."""
        import tensorflow as tf
        from google.protobuf import message

        try:
            fields = tf.train.Example.FromString(serialized).features.feature
        except message.DecodeError:
            return "is not a tf.train.Example"
        for feature in self.features:
            if feature.name not in fields:
                return f"has no feature '{feature.name}'"
            kind = fields[feature.name].WhichOneof("kind")
            if kind != feature.kind:
                return f"feature '{feature.name}' is {kind}, expected {feature.kind}"
            values = getattr(fields[feature.name], kind).value
            if len(values) != feature.size:
                return f"feature '{feature.name}' has length {len(values)}, expected {feature.size}"
            if feature.vocab_size is None:
                continue
            for id_ in (min(values), max(values)):
                if not 0 <= id_ < feature.vocab_size:
                    return (
                        f"feature '{feature.name}' has id {id_}, "
                        f"expected ids from 0 to below vocab_size {feature.vocab_size}"
                    )
        return None


def pretraining_record(
    max_seq_length: int, max_predictions_per_seq: int, vocab_size: int | None = None
) -> RecordSpec:
    """Returns the specification of a masked sequence, with the original's features.

    Args:
        max_seq_length: S.
        max_predictions_per_seq: M.
        vocab_size: V; None if it is not known.
    """
    predictions = (max_predictions_per_seq,)
    return RecordSpec(
        (
            *unmasked_record(max_seq_length, vocab_size).features,
            Feature("masked_lm_positions", predictions),
            Feature("masked_lm_ids", predictions, vocab_size=vocab_size),
            Feature("masked_lm_weights", predictions, np.float32),
        )
    )


def unmasked_record(max_seq_length: int, vocab_size: int | None = None) -> RecordSpec:
    """Returns the specification of an unmasked sequence, which is masked when it is read.

    Args:
        max_seq_length: S.
        vocab_size: V; None if it is not known.
    """
    sequence = (max_seq_length,)
    return RecordSpec(
        (
            Feature("input_ids", sequence, vocab_size=vocab_size),
            Feature("input_mask", sequence),
            Feature("segment_ids", sequence),
            Feature("token_boundary", sequence),
            Feature("next_sentence_labels", (1,)),
        )
    )


# Tags of the fields of `tf.train.Example` and its messages: number and wire type in protobuf's encoding.
# Those of `Feature` are by `Feature.kind`.
_EXAMPLE_FEATURES = 0x0A
_MAP_ENTRY, _MAP_KEY, _MAP_VALUE = 0x0A, 0x0A, 0x12
_FEATURE_LIST = {"float_list": 0x12, "int64_list": 0x1A}
_LIST_VALUES = 0x0A


class _Part(NamedTuple):
    """A part of N records, whose length may differ between records.

    Attributes:
        content: uint8 (N, width).
        is_used: which bytes belong to the records, bool (N, width).
        lengths: number of used bytes, int (N,).
    """

    content: np.ndarray
    is_used: np.ndarray
    lengths: np.ndarray

    @classmethod
    def fixed(cls, content: np.ndarray) -> "_Part":
        """Returns a part whose bytes are all used."""
        return cls(content, np.ones(content.shape, bool), np.full(len(content), content.shape[1]))


def _map_entry(feature: Feature, values: np.ndarray) -> list[_Part]:
    """Returns the entry of a feature in the map of an example, values (N, size)."""
    if feature.kind == "float_list":
        packed = _Part.fixed(values.astype("<f4").view(np.uint8))
    else:
        packed = _varints(values)
    name = np.frombuffer(feature.name.encode(), np.uint8)
    names = _Part.fixed(np.broadcast_to(name, (len(values), len(name))))
    list_ = _delimited(_FEATURE_LIST[feature.kind], _delimited(_LIST_VALUES, [packed]))
    return [*_delimited(_MAP_KEY, [names]), *_delimited(_MAP_VALUE, list_)]


def _delimited(tag: int, parts: Sequence[_Part]) -> list[_Part]:
    """Prepends the tag and the length to the content of a field."""
    lengths = sum(part.lengths for part in parts)
    tags = np.full((len(lengths), 1), tag, np.uint8)
    return [_Part.fixed(tags), _varints(lengths[:, np.newaxis]), *parts]


def _varints(values: np.ndarray) -> _Part:
    """Encodes integers (N, K) as protobuf varints: 7 bits per byte, low ones first."""
    values = values.astype(np.int64).view(np.uint64)  # a negative number takes ten bytes
    largest = int(values.max(initial=0))
    if largest < 1 << 7:
        return _Part.fixed(values.astype(np.uint8))
    width = -(-largest.bit_length() // 7)
    shape = (len(values), values.shape[1] * width)
    rest = values.astype(np.min_scalar_type(largest))
    content = np.empty((*values.shape, width), np.uint8)
    is_used = np.empty(content.shape, bool)
    for place in range(width):
        is_used[:, :, place] = rest > 0 if place else True
        content[:, :, place] = (rest & 0x7F).astype(np.uint8) | (rest > 0x7F).view(np.uint8) << 7
        rest >>= 7
    is_used = is_used.reshape(shape)
    return _Part(content.reshape(shape), is_used, np.count_nonzero(is_used, axis=1))


def _join(parts: Sequence[_Part]) -> list[bytes]:
    """Returns the N records."""
    content = np.concatenate([part.content for part in parts], axis=1)
    is_used = np.concatenate([part.is_used for part in parts], axis=1)
    joined = content[is_used].tobytes()
    ends = np.cumsum(sum(part.lengths for part in parts)).tolist()
    return [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]
