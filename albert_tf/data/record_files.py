"""TFRecord files: reading them, checking them, and leaving out bad records.

A record's end is given by its length alone. So a record with bad content can be left out, but nothing
after a damaged place can be read.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import tensorflow as tf
from google.protobuf import message

from albert_tf import files
from albert_tf.data.record_spec import RecordSpec
from albert_tf.data.record_writing import TFRECORD_TYPES, Compression
from albert_tf.errors import InputError
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress

# Number of consecutive records in a page.
PAGE = 64

_MEGABYTE = 1e6
_GZIP_MAGIC = b"\x1f\x8b"
_DAMAGED = "damaged or cut short; this record and all after it"
# Number of records that are checked together, a multiple of a page.
_GROUP = 256
# Lengths and checksums of the TFRecord format, per record.
_FRAME_BYTES = 16


def list_records(paths: Sequence[str]) -> tf.data.Dataset:
    """Returns a dataset of the arguments of `tf.data.TFRecordDataset` for each file.

    The elements are (path, compression type). The compression is detected by the file's first bytes.

    Raises:
        InputError: a file cannot be read.
    """
    types = [TFRECORD_TYPES[find_compression(path)] for path in paths]
    return tf.data.Dataset.from_tensor_slices((list(paths), types))


def find_compression(path: str) -> Compression:
    """Returns the compression of a file, by its first bytes.

    Raises:
        InputError: the file cannot be read.
    """
    with files.explain_unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        return "gzip" if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC else "none"


def is_unmasked(path: str, limit: int | None = 1) -> bool | None:
    """Returns whether a file holds unmasked records, by the first record of a sequence.

    Args:
        path: TFRecord file.
        limit: number of records to look at, from the first; None for all.

    Returns:
        None if none of these is the record of a sequence.

    Raises:
        InputError: the file cannot be read or is damaged.
    """
    for _, record in itertools.islice(_read_records(path), limit):
        try:
            fields = tf.train.Example.FromString(record).features.feature
        except message.DecodeError:
            continue
        if "input_ids" in fields:
            return not any(name.startswith("masked_lm_") for name in fields)
    return None


def check_records(path: str, spec: RecordSpec, limit: int | None = 1) -> None:
    """Checks the records of a file against a spec.

    Args:
        path: TFRecord file.
        spec: specification of its records.
        limit: number of records to check, from the first; None for all. The first one usually shows all
            mistakes except damage.

    Raises:
        InputError: the file cannot be read, is damaged or empty, or a record does not match `spec`.
    """
    number = 0
    for number, record in _read_records(path):
        if fault := spec.find_fault(record):
            raise InputError(f"{path}, record {number}: {fault}")
        if number == limit:
            break
    if number == 0:
        raise InputError(f"{path}: holds no records")


@contextlib.contextmanager
def explain_bad_records(paths: Sequence[str], spec: RecordSpec) -> Iterator[None]:
    """Turns TensorFlow's error about a bad record into an `InputError` that names the record.

    TensorFlow's message names neither the file nor the record, so after an error the files are read
    again. An error with another cause is raised again unchanged.

        with explain_bad_records(paths, spec):
            for batch in dataset:
                train_on(batch)

    Raises:
        InputError: a file is damaged, or a record does not match `spec`.
    """
    try:
        yield
    # TensorFlow's message contains the record, which need not be text.
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError):
        for path in paths:
            check_records(path, spec, limit=None)
        raise


def _read_records(path: str) -> Iterator[tuple[int, bytes]]:
    """Yields (record number from 1, record)."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        raise InputError(f"{path}: no such file")
    number = 0
    try:
        records = list_records([path]).flat_map(tf.data.TFRecordDataset)
        for number, record in enumerate(records.as_numpy_iterator(), 1):
            yield number, record
    except tf.errors.DataLossError as error:
        raise damaged_at(path, number + 1) from error
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be read: {error.message}") from error


def damaged_at(path: str, number: int) -> InputError:
    """Returns the error that a file is damaged from a record on."""
    return InputError(
        f"{path}, record {number}: damaged or cut short; expected a complete TFRecord file"
    )


@dataclasses.dataclass(frozen=True)
class BadRecords:
    """The unusable part of a file.

    Attributes:
        count: number of records, good or bad, before the file's end or damage.
        faults: what is wrong with each bad record, by its number from 1.
        is_damaged: whether the file is damaged after these records.
    """

    count: int
    faults: Mapping[int, str]
    is_damaged: bool

    @property
    def good_count(self) -> int:
        """Number of usable records."""
        return self.count - len(self.faults)

    def __bool__(self) -> bool:
        return self.is_damaged or bool(self.faults)

    def describe(self) -> Iterator[str]:
        """Yields a line for each bad record, and for the damage."""
        for number, fault in self.faults.items():
            yield f"record {number}: {fault}"
        if self.is_damaged:
            yield f"record {self.count + 1}: {_DAMAGED}"


class ScannedFile(NamedTuple):
    """What a file holds.

    Attributes:
        bad: its unusable part, which is true unless it is empty.
        page_offsets: int64 (pages + 1,), the first byte of each page of 64 consecutive records, and the
            byte after the last page. They have no meaning in a compressed file.
    """

    bad: BadRecords
    page_offsets: np.ndarray


@dataclasses.dataclass(frozen=True)
class RecordFiles:
    """TFRecord files, and which of their records are left out.

    Attributes:
        paths: the files.
        bad: the records to leave out, by file.
    """

    paths: Sequence[str]
    bad: Mapping[str, BadRecords] = dataclasses.field(default_factory=dict)

    @classmethod
    def without_bad(cls, paths: Sequence[str], scanned: Iterable[ScannedFile]) -> Self:
        """Returns scanned files without their bad records."""
        pairs = zip(paths, scanned, strict=True)
        return cls(paths, {path: file.bad for path, file in pairs if file.bad})

    def as_dataset(self) -> tf.data.Dataset:
        """Returns a dataset of the files. Its elements are the arguments of `read` and `name`."""
        bad = [self.bad.get(path) for path in self.paths]
        # -1 reads all records.
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
        """Returns the names of the records of `read`: (file, number from 1)."""
        numbered = _numbered(path, compression_type, count, left_out)
        return numbered.map(lambda number, _: (path, number))


def _numbered(
    path: tf.Tensor, compression_type: tf.Tensor, count: tf.Tensor, left_out: tf.Tensor
) -> tf.data.Dataset:
    numbered = tf.data.TFRecordDataset(path, compression_type).take(count).enumerate(1)
    return numbered.filter(lambda number, _: tf.reduce_all(left_out != number))


def scan_files(
    paths: Sequence[str], spec: RecordSpec | None, description: str
) -> list[ScannedFile]:
    """Reads files to their ends.

    Args:
        paths: TFRecord files.
        spec: specification of their records; None to look for damage only.
        description: name of the work in progress lines.

    Raises:
        InputError: a file cannot be read.
    """
    are_compressed = any(find_compression(path) != "none" for path in paths)
    total = (
        None if are_compressed else sum(tf.io.gfile.stat(path).length for path in paths) / _MEGABYTE
    )
    with Progress(description, "MB", total, delay=SECONDS_WITHOUT_PROGRESS) as progress:
        return [_scan(path, spec, progress) for path in paths]


def _scan(path: str, spec: RecordSpec | None, progress: Progress) -> ScannedFile:
    count, faults, is_damaged = 0, {}, False
    ends = [np.zeros(1, np.int64)]
    try:
        for group in _groups(path):
            if spec is not None and not _can_parse(spec, group):
                for number, record in enumerate(group, count + 1):
                    if fault := spec.find_fault(record):
                        faults[number] = fault
            count += len(group)
            lengths = [_FRAME_BYTES + len(record) for record in group]
            ends.append(ends[-1][-1] + np.cumsum(lengths))
            progress.update(sum(lengths) / _MEGABYTE)
    except tf.errors.DataLossError:
        is_damaged = True
    starts = np.concatenate(ends)
    pages = np.append(starts[:-1:PAGE], starts[-1])
    return ScannedFile(BadRecords(count, faults, is_damaged), pages)


def _groups(path: str) -> Iterator[list[bytes]]:
    """Yields lists of records, up to the damage if the file is damaged."""
    records = list_records([path]).flat_map(tf.data.TFRecordDataset)
    count = 0
    try:
        for batch in records.batch(_GROUP).as_numpy_iterator():
            yield batch.tolist()
            count += len(batch)
    except tf.errors.DataLossError:
        # The batch with the damage is lost, also the records before it.
        last: list[bytes] = []
        with contextlib.suppress(tf.errors.DataLossError):
            for record in records.skip(count).as_numpy_iterator():
                last.append(record)
        if last:
            yield last
        raise


def _can_parse(spec: RecordSpec, group: list[bytes]) -> bool:
    """Checks many records at once, which is fast if they are good."""
    try:
        spec.parse(tf.constant(group, tf.string))
    # TensorFlow's message contains the record, which need not be text.
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
        return False
    return True
