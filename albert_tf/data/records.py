"""Records: what they hold, how they are written, parsed and checked.

A record is a serialized `tf.train.Example`. Writer and reader share a `RecordSpec`, and files from
elsewhere are checked against it.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf
from google.protobuf import message

from albert_tf import files
from albert_tf.errors import InputError

# A number takes at most ten bytes, and one more if it is not packed.
_NUMBER_BYTES = 11
# Room for the names, and for features that nobody reads.
_OTHER_BYTES = 1 << 20
# Names in the records of TensorFlow's Model Garden.
_OTHER_NAMES = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of a record."""

    name: str
    shape: tuple[int, ...]  # in one record
    dtype: type[np.generic] = np.int32  # after parsing, int32 or float32; int64 is stored
    limit: int | None = None  # integers are from 0 to below it
    flag: str | None = None  # the one that sets the size, or those with ", --" between them
    key: str = ""  # in the `tf.train.Example`, if it is not the name
    if_missing: str = ""  # what to do with records that lack it

    @property
    def stored_name(self) -> str:
        """Key in the `tf.train.Example`."""
        return self.key or self.name

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
    """The features of a record, with distinct names."""

    features: tuple[Feature, ...]

    @functools.cached_property
    def max_bytes(self) -> int:
        """Number of bytes that no record exceeds."""
        return _OTHER_BYTES + _NUMBER_BYTES * sum(feature.size for feature in self.features)

    def for_masked(self, record: bytes) -> Self:
        """Returns the specification to read masked records with, of which one is given.

        It has that record's names, and no `token_boundary`, which masking alone needs and BERT's lack.
        """
        fields = _fields(record)
        keys = {ours: theirs for ours, theirs in _OTHER_NAMES.items() if theirs in fields}
        return type(self)(
            tuple(
                dataclasses.replace(feature, key=keys.get(feature.name, ""))
                for feature in self.without("token_boundary").features
            )
        )

    def for_unmasked(self, record: bytes) -> Self:
        """Returns the specification to read unmasked records with, of which one is given.

        It has no `token_boundary` if that record has none, as those of ELECTRA.
        """
        return self if "token_boundary" in _fields(record) else self.without("token_boundary")

    def without(self, name: str) -> Self:
        """Returns the specification without a feature."""
        return type(self)(tuple(feature for feature in self.features if feature.name != name))

    def serialize_batch(self, columns: Mapping[str, np.ndarray]) -> list[bytes]:
        """Returns N records, given an array (N, *shape) for each feature; equal values, equal bytes."""
        example = tf.train.Example()
        fields, lists = [], []
        for feature in self.features:
            array = np.asarray(columns[feature.name])
            stored = np.float32 if feature.kind == "float_list" else np.int64
            lists.append(array.reshape(len(array), feature.size).astype(stored).tolist())
            fields.append(getattr(example.features.feature[feature.name], feature.kind).value)
        records = []
        for row in zip(*lists, strict=True):
            for field, values in zip(fields, row, strict=True):
                field[:] = values
            records.append(example.SerializeToString(deterministic=True))
        return records

    def parse(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """Parses a record () or, which is faster, a batch (B,), in `tf.data.Dataset.map`, too.

        A feature has the declared dtype and the shape `shape`, or (B, *shape).
        """
        columns = {
            feature.stored_name: tf.io.FixedLenFeature(
                feature.shape, tf.float32 if feature.kind == "float_list" else tf.int64
            )
            for feature in self.features
        }
        parsed = tf.io.parse_example(serialized, columns)
        # An id out of range is an error on CPU, but silent on GPU and TPU. A position out of range is one
        # of another record. With numbers in the message each check would be a condition of two graphs.
        checks = []
        for feature in self.features:
            if feature.limit is not None:
                values, limit = parsed[feature.stored_name], tf.cast(feature.limit, tf.int64)
                fits = tf.reduce_all((values >= 0) & (values < limit))
                expected = f"feature '{feature.name}': expected 0 to {feature.limit - 1}"
                checks.append(tf.debugging.Assert(fits, [expected]))
        with tf.control_dependencies(checks):
            return {
                feature.name: tf.cast(parsed[feature.stored_name], feature.dtype)
                for feature in self.features
            }

    def _find_fault(self, serialized: bytes) -> str | None:
        """Returns what is wrong with a record, or None."""
        try:
            fields = tf.train.Example.FromString(serialized).features.feature
        except message.DecodeError:
            return "is not a tf.train.Example"
        for feature in self.features:
            name = feature.stored_name
            if name not in fields:
                return f"has no feature '{name}'{feature.if_missing}"
            kind = fields[name].WhichOneof("kind")
            if kind != feature.kind:
                return f"feature '{name}' is {kind}, expected {feature.kind}"
            values = getattr(fields[name], kind).value
            if len(values) != feature.size:
                flag = f", as --{feature.flag} or the first record says" if feature.flag else ""
                return f"feature '{name}' has length {len(values)}, expected {feature.size}{flag}"
            if feature.limit is None:
                continue
            for value in (min(values), max(values)):
                if not 0 <= value < feature.limit:
                    return f"feature '{name}' has {value}, expected 0 to {feature.limit - 1}"
        return None

    def check(self, records: Sequence[bytes], path: str, first: int) -> None:
        """Raises `InputError` for the first bad one of consecutive records of a file, from `first` on."""
        try:
            self.parse(tf.constant(records, tf.string))  # fast, if all are good
        # TensorFlow's message contains the record, which need not be text.
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
            for number, record in enumerate(records, first):
                if fault := self._find_fault(record):
                    raise InputError(f"{path}, record {number}: {fault}") from None


def feature_sizes(serialized: bytes) -> dict[str, int]:
    """Returns the numbers of integers in the features of a sequence's record; none of any other bytes."""
    names = {theirs: ours for ours, theirs in _OTHER_NAMES.items()}
    sizes = {
        names.get(name, name): len(field.int64_list.value)
        for name, field in _fields(serialized).items()
    }
    sizes = {name: size for name, size in sizes.items() if size}
    return sizes if "input_ids" in sizes else {}


def _fields(serialized: bytes) -> Mapping[str, Any]:
    """Returns the features of a record; none of any other bytes."""
    with contextlib.suppress(message.DecodeError):
        return tf.train.Example.FromString(serialized).features.feature
    return {}


def pretraining_record(
    max_seq_length: int, max_predictions_per_seq: int, vocab_size: int | None = None
) -> RecordSpec:
    """Returns the specification of a masked sequence, with the original's features.

    A sequence has M slots for predictions, and may use fewer. `masked_lm_weights` is their mask: 1 for
    a prediction, 0 for an unused slot. Position and id of an unused slot are 0 and mean nothing, though
    0 is also the position of [CLS]. So whatever reads predictions reads the mask.
    """
    predictions = functools.partial(
        Feature,
        shape=(max_predictions_per_seq,),
        flag="max_predictions_per_seq, --masked_lm_prob",
    )
    return RecordSpec(
        (
            *unmasked_record(max_seq_length, vocab_size).features,
            predictions("masked_lm_positions", limit=max_seq_length),
            predictions("masked_lm_ids", limit=vocab_size),
            predictions("masked_lm_weights", dtype=np.float32),
        )
    )


def unmasked_record(max_seq_length: int, vocab_size: int | None = None) -> RecordSpec:
    """Returns the specification of an unmasked sequence, which is masked when it is read."""
    sequence = functools.partial(Feature, shape=(max_seq_length,), flag="max_seq_length")
    return RecordSpec(
        (
            sequence("input_ids", limit=vocab_size),
            sequence("input_mask", limit=2),
            sequence("segment_ids", limit=2),
            sequence("token_boundary"),
            Feature(
                "next_sentence_labels",
                shape=(1,),
                limit=2,
                if_missing="; --sentence_objective=none needs none",
            ),
        )
    )


def write_records(path: str, records: Iterable[bytes]) -> None:
    """Writes records to a TFRecord file, which appears when it is complete."""
    with (
        files.write_atomically(path) as incomplete,
        tf.io.TFRecordWriter(files.for_tensorflow(incomplete)) as writer,
    ):
        for record in records:
            writer.write(record)
