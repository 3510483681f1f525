"""Record files to read from, and which of their records are left out.

The format tells where a record ends by its length alone. So a record with wrong content can be left out
and the next one read, but where a file is damaged, nothing after the damage can be read.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf

from albert_tf.data.record_spec import RecordSpec
from albert_tf.data.records import list_records

_DAMAGED = "damaged or cut short; this record and all after it"
# Records that are looked at together.
_CHUNK = 256


@dataclasses.dataclass(frozen=True)
class BadRecords:
    """What cannot be used of a file.

    Attributes:
        count: how many records there are, good or bad, before the file ends or is damaged.
        faults: number of a record, from 1, -> what is wrong with it.
        is_damaged: whether the file goes on where nothing can be read.
    """

    count: int
    faults: Mapping[int, str]
    is_damaged: bool

    @property
    def good_count(self) -> int:
        """How many records can be used."""
        return self.count - len(self.faults)

    def __bool__(self) -> bool:
        return self.is_damaged or bool(self.faults)

    def describe(self) -> Iterator[str]:
        """Yields what is left out and why, from the first record to the last."""
        for number, fault in self.faults.items():
            yield f"record {number}: {fault}"
        if self.is_damaged:
            yield f"record {self.count + 1}: {_DAMAGED}"


@dataclasses.dataclass(frozen=True)
class RecordFiles:
    """TFRecord files, and which of their records are left out.

    Attributes:
        paths: the files.
        bad: what is left out of the files that something is left out of.
    """

    paths: Sequence[str]
    bad: Mapping[str, BadRecords] = dataclasses.field(default_factory=dict)

    def as_dataset(self) -> tf.data.Dataset:
        """Returns a dataset of the files, whose elements are the arguments of `read` and `name`."""
        bad = [self.bad.get(path) for path in self.paths]
        # As many as there are, where the file is whole.
        counts = tf.constant(
            [each.count if each and each.is_damaged else -1 for each in bad], tf.int64
        )
        numbers = tf.ragged.constant(
            [list(each.faults) if each else [] for each in bad], tf.int64, ragged_rank=1
        )
        left_out = tf.data.Dataset.from_tensor_slices((counts, numbers))
        return tf.data.Dataset.zip(list_records(self.paths), left_out).map(
            lambda file, left_out: (*file, *left_out)
        )

    def read(
        self, path: tf.Tensor, compression_type: tf.Tensor, count: tf.Tensor, left_out: tf.Tensor
    ) -> tf.data.Dataset:
        """Returns the serialized records of a file, string ()."""
        if not self.bad:
            return tf.data.TFRecordDataset(path, compression_type)
        numbered = _numbered(path, compression_type, count, left_out)
        return numbered.map(lambda _, record: record)

    def name(
        self, path: tf.Tensor, compression_type: tf.Tensor, count: tf.Tensor, left_out: tf.Tensor
    ) -> tf.data.Dataset:
        """Returns the names of the records that `read` returns: (file, number from 1)."""
        numbered = _numbered(path, compression_type, count, left_out)
        return numbered.map(lambda number, _: (path, number))


def _numbered(
    path: tf.Tensor, compression_type: tf.Tensor, count: tf.Tensor, left_out: tf.Tensor
) -> tf.data.Dataset:
    numbered = tf.data.TFRecordDataset(path, compression_type).take(count).enumerate(1)
    return numbered.filter(lambda number, _: tf.reduce_all(left_out != number))


def find_bad_records(path: str, spec: RecordSpec) -> BadRecords:
    """Reads a file to its end and returns what cannot be used of it; true where that is anything.

    Args:
        path: a TFRecord file.
        spec: what its records have to hold.
    """
    count, faults, is_damaged = 0, {}, False
    try:
        for chunk in _chunks(list_records([path]).flat_map(tf.data.TFRecordDataset)):
            if not _can_parse(spec, chunk):
                for number, record in enumerate(chunk, count + 1):
                    if fault := spec.find_fault(record):
                        faults[number] = fault
            count += len(chunk)
    except tf.errors.DataLossError:
        is_damaged = True
    return BadRecords(count, faults, is_damaged)


def _chunks(records: Iterable[tf.Tensor]) -> Iterator[list[bytes]]:
    """Yields lists of records; where the file is damaged, first those before the damage."""
    chunk: list[bytes] = []
    try:
        for record in records:
            chunk.append(record.numpy())
            if len(chunk) == _CHUNK:
                yield chunk
                chunk = []
    except tf.errors.DataLossError:
        yield chunk
        raise
    yield chunk


def _can_parse(spec: RecordSpec, chunk: list[bytes]) -> bool:
    """Looks at many records at once, which is fast where nothing is wrong with them."""
    try:
        spec.parse(tf.constant(chunk, tf.string))
    # TensorFlow puts the record into the message, which then need not be text.
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
        return False
    return True
