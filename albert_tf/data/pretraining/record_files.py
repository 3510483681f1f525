"""TFRecord files: reading them, checking them, and leaving out bad records.

A record's end is given by its length alone. So a record with bad content can be left out, but nothing
after a damaged place can be read.
"""

import contextlib
import dataclasses
import gzip
import itertools
import os
import re
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

_SHARD_NUMBER = re.compile(r"-\d{5}-of-\d{5}$")
_GZIP_MAGIC = b"\x1f\x8b"
# What is in front of each record: its length, and a checksum of the length.
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4
_DAMAGED = "damaged or cut short"
_MEGABYTE = 1e6
# Number of records that are checked together.
_GROUP = 256


def stats_file_of(path: str) -> str:
    """Returns the path of the stats file next to a record file or its shards."""
    stem, _ = os.path.splitext(path)
    return _SHARD_NUMBER.sub("", stem) + ".stats.json"


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """A TFRecord file whose records have been counted; see `InputFile`."""

    path: str
    size: int
    modified: int
    count: int  # of records, good or bad, before the file's end or damage
    # What is wrong with each bad record, by its number from 1. Such records are left out.
    faults: Mapping[int, str] = dataclasses.field(default_factory=dict)
    damage: str | None = None  # what is wrong after these records; None if the file ends there

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
    """Reads files to their ends and counts their records; `description` is for progress lines.

    With `checks` it looks for records that do not match `spec`, to leave them out, and for damage.
    Otherwise damage is an error, and so is a first record that does not match, which usually shows all
    mistakes in the flags.
    """
    found = [find_file(path) for path in paths]
    if not checks:
        for path in paths:
            for record in itertools.islice(_payloads(path, spec), 1):
                if fault := spec.find_fault(record):
                    raise InputError(f"{path}, record 1: {fault}")
    total = sum(file.size for file in found) / _MEGABYTE
    scanned = []
    with Progress(description, "MB", total, delay=SECONDS_WITHOUT_PROGRESS) as progress:
        for file in found:
            scanned.append(_scan(file, spec, checks))
            if not checks:
                _refuse_bad(scanned[-1])
            progress.update(file.size / _MEGABYTE)
    return scanned


def _scan(file: InputFile, spec: RecordSpec, checks: bool) -> RecordFile:
    count, damage = 0, None
    try:
        for _ in _payloads(file.path, spec):
            count += 1
    except _DamagedError as error:
        damage = error.damage
    records = read_file(file.path).take(count)
    done, faults = 0, {}
    # The group with a wrong checksum is lost; then the records before it are read one by one.
    for size in (_GROUP, 1):
        try:
            for group in records.skip(done).batch(size).as_numpy_iterator():
                if checks:
                    faults |= spec.find_faults(group.tolist(), done + 1)
                done += len(group)
            break
        except tf.errors.DataLossError:
            damage = _DAMAGED
    return RecordFile(*file, done, faults, damage)


class _DamagedError(InputError):
    """The rest of a file, after some records, cannot be read."""

    def __init__(self, path: str, count: int, damage: str):
        super().__init__(f"{path}, record {count + 1}: {damage}; expected a complete TFRecord file")
        self.damage = damage


def _payloads(path: str, spec: RecordSpec) -> Iterator[bytes]:
    """Yields the records of a file by their lengths, without a look at their checksums.

    TensorFlow believes any length that has a valid checksum, and reads that much into memory, also of
    records that are not asked for yet.
    """
    count = 0
    with files.explain_unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        stream = gzip.GzipFile(fileobj=file) if find_compression(path) == "gzip" else file
        try:
            while header := stream.read(_HEADER.size):
                if len(header) < _HEADER.size:
                    raise EOFError
                length, _ = _HEADER.unpack(header)
                if length > spec.max_bytes:
                    too_large = f"{length} bytes, at most {spec.max_bytes} expected"
                    raise _DamagedError(path, count, f"damaged or too large: {too_large}")
                rest = stream.read(length + _CHECKSUM_BYTES)
                if len(rest) < length + _CHECKSUM_BYTES:
                    raise EOFError
                yield rest[:length]
                count += 1
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _DamagedError(path, count, _DAMAGED) from error


def _refuse_bad(file: RecordFile) -> None:
    for number, fault in file.faults.items():
        raise InputError(f"{file.path}, record {number}: {fault}")
    if file.damage:
        raise _DamagedError(file.path, file.count, file.damage)
    if not file.count:
        raise InputError(f"{file.path}: holds no records")


@contextlib.contextmanager
def explain_bad_records(paths: Sequence[str], spec: RecordSpec) -> Iterator[None]:
    """Turns TensorFlow's error about a bad record into an `InputError` that names the record.

    TensorFlow's message names neither the file nor the record, so after an error the files are read
    again. An error with another cause is raised again unchanged.
    """
    try:
        yield
    # TensorFlow's message contains the record, which need not be text.
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError):
        for path in paths:
            _refuse_bad(_scan(find_file(path), spec, checks=True))
        raise


def find_compression(path: str) -> Compression:
    """Returns the compression of a file, by its first bytes."""
    with files.explain_unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        return "gzip" if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC else "none"


def read_file(path: str) -> tf.data.Dataset:
    """Returns the serialized records of a file of any compression, string ()."""
    return tf.data.TFRecordDataset(path, TFRECORD_TYPES[find_compression(path)])


def read_sizes(path: str, spec: RecordSpec, limit: int | None = 1) -> dict[str, int]:
    """Returns the number of values of each feature in the first record of a sequence, by name.

    It looks at the first `limit` records, or at all. If none of these is the record of a sequence, the
    result is empty.
    """
    for record in itertools.islice(_payloads(path, spec), limit):
        with contextlib.suppress(message.DecodeError):
            fields = tf.train.Example.FromString(record).features.feature
            if "input_ids" in fields:
                kinds = {name: field.WhichOneof("kind") for name, field in fields.items()}
                return {
                    name: len(getattr(fields[name], kind).value)
                    for name, kind in kinds.items()
                    if kind
                }
    return {}


def save_scanned(path: str, scanned: Mapping[str, tuple[Sequence[RecordFile], str]]) -> None:
    """Writes what `scan_files` returned to a JSON file, by name, beside what decided about it."""
    values = {
        name: {"checked": checked, "files": [dataclasses.asdict(file) for file in of_name]}
        for name, (of_name, checked) in scanned.items()
    }
    files.write_json(path, values)


def load_scanned(
    path: str, name: str, paths: Sequence[str], checked: str
) -> list[RecordFile] | None:
    """Returns the files that were saved under a name.

    They have to be those of `paths`, as these are now, and with an equal `checked`. If they are others,
    it prints a warning and returns None.
    """
    if not tf.io.gfile.exists(path):
        return None
    now = [find_file(path) for path in paths]
    try:
        values = files.read_json(path)
        if name not in values:
            return None
        scanned = [
            RecordFile(**{**file, "faults": {int(n): text for n, text in file["faults"].items()}})
            for file in values[name]["files"]
        ]
        inputs = [InputFile(file.path, file.size, file.modified) for file in scanned]
        if inputs == now and values[name]["checked"] == checked:
            return scanned
        sizes = {file.path: file for file in inputs}
        changed = [file.path for file in now if sizes.get(file.path, file) != file]
        reason = f"{changed[0]} has changed" if changed else "made of other files or flags"
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        reason = "damaged"
    print(f"warning: {path}: {reason}; making it again", file=sys.stderr)
    return None
