"""TFRecord files: counting their records, and naming a bad one."""

import contextlib
import dataclasses
import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf
from google.protobuf import message

from albert_tf import files
from albert_tf.data.pretraining.input_files import InputFile, find_file
from albert_tf.data.records import RecordSpec
from albert_tf.errors import InputError, warn
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress

# What is in front of each record: its length, and a checksum of the length.
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4
_MEGABYTE = 1e6
# Number of records that are checked together.
_GROUP = 256


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """A TFRecord file whose records have been counted; see `InputFile`."""

    path: str
    size: int
    modified: int
    count: int  # of records


def scan_files(paths: Sequence[str], spec: RecordSpec, description: str) -> list[RecordFile]:
    """Reads files to their ends and counts their records; `description` is for progress lines.

    Damage is an error, and so is a first record that does not match `spec`, which usually shows all
    mistakes in the flags.
    """
    found = [find_file(path) for path in paths]
    for path in paths:
        for record in itertools.islice(_payloads(path, spec), 1):
            if fault := spec.find_fault(record):
                raise InputError(f"{path}, record 1: {fault}")
    total = sum(file.size for file in found) / _MEGABYTE
    scanned = []
    with Progress(description, "MB", total, delay=SECONDS_WITHOUT_PROGRESS) as progress:
        for file in found:
            scanned.append(_scan(file, spec))
            progress.update(file.size / _MEGABYTE)
    return scanned


def _scan(file: InputFile, spec: RecordSpec, checks: bool = False) -> RecordFile:
    """Counts a file's records; refuses damage and, with `checks`, records that are not `spec`'s."""
    count, damage = 0, None
    try:
        for _ in _payloads(file.path, spec):
            count += 1
    except _DamagedError as error:
        damage = error
    records = tf.data.TFRecordDataset(file.path).take(count)
    done = 0
    # The group with a wrong checksum is lost; then the records before it are read one by one.
    for size in (_GROUP, 1):
        try:
            for group in records.skip(done).batch(size).as_numpy_iterator():
                faults = spec.find_faults(group.tolist(), done + 1) if checks else {}
                for number, fault in faults.items():
                    raise InputError(f"{file.path}, record {number}: {fault}")
                done += len(group)
            break
        except tf.errors.DataLossError:
            damage = _DamagedError(file.path, done)
    if damage:
        raise damage
    if not done:
        raise InputError(f"{file.path}: holds no records")
    return RecordFile(*file, done)


class _DamagedError(InputError):
    """The rest of a file, after some records, cannot be read."""

    def __init__(self, path: str, count: int, damage: str = "damaged or cut short"):
        super().__init__(f"{path}, record {count + 1}: {damage}; expected a complete TFRecord file")


def _payloads(path: str, spec: RecordSpec) -> Iterator[bytes]:
    """Yields the records of a file by their lengths, without a look at their checksums.

    TensorFlow believes any length that has a valid checksum, and reads that much into memory, also of
    records that are not asked for yet.
    """
    count = 0
    with files.explain_unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        while header := file.read(_HEADER.size):
            if len(header) < _HEADER.size:
                raise _DamagedError(path, count)
            length, _ = _HEADER.unpack(header)
            if length > spec.max_bytes:
                too_large = f"{length} bytes, at most {spec.max_bytes} expected"
                raise _DamagedError(path, count, f"damaged or too large: {too_large}")
            rest = file.read(length + _CHECKSUM_BYTES)
            if len(rest) < length + _CHECKSUM_BYTES:
                raise _DamagedError(path, count)
            yield rest[:length]
            count += 1


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
            _scan(find_file(path), spec, checks=True)
        raise


def read_sizes(path: str, spec: RecordSpec) -> dict[str, int]:
    """Returns the number of values of each feature of integers in the first record, by name.

    If it is not the record of a sequence, the result is empty.
    """
    for record in itertools.islice(_payloads(path, spec), 1):
        with contextlib.suppress(message.DecodeError):
            fields = tf.train.Example.FromString(record).features.feature
            if "input_ids" in fields:
                sizes = {name: len(field.int64_list.value) for name, field in fields.items()}
                return {name: size for name, size in sizes.items() if size}
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
        scanned = [RecordFile(**file) for file in values[name]["files"]]
        inputs = [InputFile(file.path, file.size, file.modified) for file in scanned]
        if inputs == now and values[name]["checked"] == checked:
            return scanned
        sizes = {file.path: file for file in inputs}
        changed = [file.path for file in now if sizes.get(file.path, file) != file]
        reason = f"{changed[0]} has changed" if changed else "made of other files or flags"
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        reason = "damaged"
    warn(f"{path}: {reason}; making it again")
    return None
