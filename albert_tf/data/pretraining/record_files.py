"""TFRecord files: reading them, checking them, and leaving out bad records.

A record's end is given by its length alone. So a record with bad content can be left out, but nothing
after a damaged place can be read.
"""

import contextlib
import dataclasses
import gzip
import itertools
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf
from google.protobuf import message

from albert_tf import files
from albert_tf.data.pretraining.input_files import InputFile, find_file
from albert_tf.data.records import TFRECORD_TYPES, Compression, RecordSpec
from albert_tf.errors import InputError
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress

_GZIP_MAGIC = b"\x1f\x8b"
# What is in front of each record: its length, and a checksum of the length.
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4
_DAMAGED = "damaged or cut short"
_MEGABYTE = 1e6
# Number of records that are checked together.
_GROUP = 256


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """A TFRecord file whose records have been counted.

    Attributes:
        path: the file.
        size: its size in bytes, when the records were counted.
        modified: time of its last change, nanoseconds since 1970.
        count: number of records, good or bad, before the file's end or damage.
        faults: what is wrong with each bad record, by its number from 1. Such records are left out.
        damage: what is wrong after these records; None if the file ends there.
    """

    path: str
    size: int
    modified: int
    count: int
    faults: Mapping[int, str] = dataclasses.field(default_factory=dict)
    damage: str | None = None

    @property
    def good_count(self) -> int:
        """Number of records that are not left out."""
        return self.count - len(self.faults)

    def describe_bad(self) -> Iterator[str]:
        """Yields a line for each bad record, and for the damage."""
        for number, fault in self.faults.items():
            yield f"{self.path}, record {number}: {fault}"
        if self.damage:
            yield (
                f"{self.path}, record {self.count + 1}: {self.damage}; this record and all after it"
            )


def scan_files(
    paths: Sequence[str], spec: RecordSpec, description: str, checks: bool = False
) -> list[RecordFile]:
    """Reads files to their ends and counts their records.

    Args:
        paths: TFRecord files.
        spec: specification of their records.
        description: name of the work in progress lines.
        checks: whether to look for damage and for records that do not match `spec`, to leave them out.
            Otherwise damage is an error.
    """
    found = [find_file(path) for path in paths]
    total = sum(file.size for file in found) / _MEGABYTE
    scanned = []
    with Progress(description, "MB", total, delay=SECONDS_WITHOUT_PROGRESS) as progress:
        for file in found:
            scanned.append(_scan(file, spec, checks))
            progress.update(file.size / _MEGABYTE)
    return scanned


def _scan(file: InputFile, spec: RecordSpec, checks: bool) -> RecordFile:
    count, damage = 0, None
    try:
        for _ in _payloads(file.path, spec):
            count += 1
    except _DamagedError as error:
        damage = str(error)
    records = read_file(file.path).take(count)
    done, faults = 0, {}
    try:
        for group in records.batch(_GROUP).as_numpy_iterator():
            if checks:
                faults |= spec.find_faults(group.tolist(), done + 1)
            done += len(group)
    except tf.errors.DataLossError:
        damage = _DAMAGED
        # The group with the damage is lost, also the records before it.
        with contextlib.suppress(tf.errors.DataLossError):
            for record in records.skip(done).as_numpy_iterator():
                done += 1
                if checks:
                    faults |= spec.find_faults([record], done)
    if damage and not checks:
        raise _damaged_at(file.path, done + 1, damage)
    return RecordFile(*file, done, faults, damage)


class _DamagedError(Exception):
    """The rest of a file cannot be read; the message says why."""


def _payloads(path: str, spec: RecordSpec) -> Iterator[bytes]:
    """Yields the records of a file by their lengths, without a look at their checksums.

    TensorFlow believes any length that has a valid checksum, and reads that much into memory, also of
    records that are not asked for yet.
    """
    with files.explain_unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        stream = gzip.GzipFile(fileobj=file) if find_compression(path) == "gzip" else file
        try:
            while header := stream.read(_HEADER.size):
                if len(header) < _HEADER.size:
                    raise _DamagedError(_DAMAGED)
                length, _ = _HEADER.unpack(header)
                if length > spec.max_bytes:
                    raise _DamagedError(
                        f"damaged or too large: {length} bytes, at most {spec.max_bytes} expected"
                    )
                rest = stream.read(length + _CHECKSUM_BYTES)
                if len(rest) < length + _CHECKSUM_BYTES:
                    raise _DamagedError(_DAMAGED)
                yield rest[:length]
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _DamagedError(_DAMAGED) from error


def read_records(path: str, spec: RecordSpec) -> Iterator[tuple[int, bytes]]:
    """Yields (record number from 1, record), without a look at their checksums."""
    number = 0
    try:
        for number, record in enumerate(_payloads(path, spec), 1):
            yield number, record
    except _DamagedError as error:
        raise _damaged_at(path, number + 1, str(error)) from error


def check_first_record(path: str, spec: RecordSpec) -> None:
    """Checks the first record of a file, which usually shows all mistakes except damage."""
    for number, record in read_records(path, spec):
        if fault := spec.find_fault(record):
            raise InputError(f"{path}, record {number}: {fault}")
        return
    raise InputError(f"{path}: holds no records")


def check_records(path: str, spec: RecordSpec) -> None:
    """Checks all records of a file."""
    file = _scan(find_file(path), spec, checks=True)
    for number, fault in file.faults.items():
        raise InputError(f"{path}, record {number}: {fault}")
    if file.damage:
        raise _damaged_at(path, file.count + 1, file.damage)
    if not file.count:
        raise InputError(f"{path}: holds no records")


def _damaged_at(path: str, number: int, damage: str) -> InputError:
    """Returns the error that a file is damaged from a record on."""
    return InputError(f"{path}, record {number}: {damage}; expected a complete TFRecord file")


@contextlib.contextmanager
def explain_bad_records(paths: Sequence[str], spec: RecordSpec) -> Iterator[None]:
    """Turns TensorFlow's error about a bad record into an `InputError` that names the record.

    TensorFlow's message names neither the file nor the record, so after an error the files are read
    again. An error with another cause is raised again unchanged.

        with explain_bad_records(paths, spec):
            for batch in dataset:
                train_on(batch)
    """
    try:
        yield
    # TensorFlow's message contains the record, which need not be text.
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError):
        for path in paths:
            check_records(path, spec)
        raise


def find_compression(path: str) -> Compression:
    """Returns the compression of a file, by its first bytes."""
    with files.explain_unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        return "gzip" if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC else "none"


def read_file(path: str) -> tf.data.Dataset:
    """Returns the serialized records of a file of any compression, string ()."""
    return tf.data.TFRecordDataset(path, TFRECORD_TYPES[find_compression(path)])


def read_sizes(path: str, spec: RecordSpec, limit: int | None = 1) -> dict[str, int]:
    """Returns the number of values of each feature in the first record of a sequence.

    It looks at the first `limit` records; None for all.

    Returns:
        Sizes by name; empty if none of these is the record of a sequence.
    """
    for _, record in itertools.islice(read_records(path, spec), limit):
        try:
            fields = tf.train.Example.FromString(record).features.feature
        except message.DecodeError:
            continue
        if "input_ids" in fields:
            kinds = {name: field.WhichOneof("kind") for name, field in fields.items()}
            return {
                name: len(getattr(fields[name], kind).value) for name, kind in kinds.items() if kind
            }
    return {}


def save_scanned(
    path: str, scanned: Mapping[str, tuple[Sequence[RecordFile], RecordSpec | None]]
) -> None:
    """Writes what `scan_files` returned to a JSON file.

    Beside the files of each name stands the specification that all of their records were checked against;
    None for damage only.
    """
    values = {
        name: {"checked": repr(spec), "files": [dataclasses.asdict(file) for file in of_name]}
        for name, (of_name, spec) in scanned.items()
    }
    files.write_json(path, values)


def load_scanned(
    path: str, name: str, paths: Sequence[str], spec: RecordSpec | None
) -> list[RecordFile] | None:
    """Returns the files that were saved under a name.

    They have to be those of `paths`, as these are now, and checked against the same specification.

    Returns:
        None, with a warning, if they are others.
    """
    if not tf.io.gfile.exists(path):
        return None
    try:
        values = files.read_json(path)
        if name not in values:
            return None
        scanned = [
            RecordFile(**{**file, "faults": {int(n): text for n, text in file["faults"].items()}})
            for file in values[name]["files"]
        ]
        checked = values[name]["checked"]
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        print(f"warning: {path}: damaged; making it again", file=sys.stderr)
        return None
    inputs = [InputFile(file.path, file.size, file.modified) for file in scanned]
    now = [find_file(path) for path in paths]
    if (inputs, checked) == (now, repr(spec)):
        return scanned
    known = {file.path for file in inputs}
    if changed := [file.path for file in now if file.path in known and file not in inputs]:
        reason = f"{changed[0]} has changed"
    else:
        reason = "made with other flags" if inputs == now else "made of other files"
    print(f"warning: {path}: {reason}; making it again", file=sys.stderr)
    return None
