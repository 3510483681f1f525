"""TFRecord files: reading them, and checking those that somebody else made."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import tensorflow as tf
from google.protobuf import message

from albert_tf import files, gfile
from albert_tf.data.record_spec import RecordSpec
from albert_tf.data.record_writing import TFRECORD_TYPES, Compression
from albert_tf.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"


def list_records(paths: Sequence[str]) -> tf.data.Dataset:
    """Returns a dataset of what `tf.data.TFRecordDataset` needs to read each TFRecord file.

    The elements are (path, compression type). Whether a file is compressed is seen from its first
    bytes, not from its name.

    Raises:
        InputError: a file cannot be read.
    """
    types = [TFRECORD_TYPES[_find_compression(path)] for path in paths]
    return tf.data.Dataset.from_tensor_slices((list(paths), types))


def _find_compression(path: str) -> Compression:
    with files.explain_unreadable(path), gfile.GFile(path, "rb") as file:
        return "gzip" if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC else "none"


def is_unmasked(path: str, limit: int | None = 1) -> bool | None:
    """Returns whether the first sequence in a file is one that nothing was masked in.

    Args:
        path: a TFRecord file.
        limit: how many records to look at, from the first; None for all.

    Returns:
        None where none of them is a sequence.

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
        path: a TFRecord file.
        spec: what its records have to hold.
        limit: how many records to look at, from the first; None for all. The first shows every
            mistake but damage to the file, for nothing.

    Raises:
        InputError: the file cannot be read, is damaged or holds no record, or a record lacks a
            feature or has one of another type or length.
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
    """Turns what TensorFlow says about a bad record into an `InputError` that says where it is.

    TensorFlow's message names neither the file nor the record, so on an error, and only then, the
    files are read once more. It may wrap all that a run does with its batches: an error for which
    the records are not to blame costs that reading, and is raised again as it was.

        with explain_bad_records(paths, spec):
            for batch in dataset:
                train_on(batch)

    Raises:
        InputError: a file is damaged or a record is not as `spec` says.
    """
    try:
        yield
    # TensorFlow puts a record that it cannot parse into the message, which then need not be text.
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError):
        for path in paths:
            check_records(path, spec, limit=None)
        raise


def _read_records(path: str) -> Iterator[tuple[int, bytes]]:
    """Yields (record number from 1, record)."""
    if not gfile.exists(path) or gfile.isdir(path):
        raise InputError(f"{path}: no such file")
    number = 0
    try:
        records = list_records([path]).flat_map(tf.data.TFRecordDataset)
        for number, record in enumerate(records.as_numpy_iterator(), 1):
            yield number, record
    except tf.errors.DataLossError as error:
        raise InputError(
            f"{path}, record {number + 1}: damaged or cut short; expected a complete TFRecord file"
        ) from error
    except tf.errors.OpError as error:
        raise InputError(f"{path}: cannot be read: {error.message}") from error
