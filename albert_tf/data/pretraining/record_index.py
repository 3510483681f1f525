"""An index of record files, with which any record can be read without those before it.

The index has the place of each *page*, 64 consecutive records of a file, in 8 bytes per page: 50 MB for a
terabyte of sequences of 512 tokens. It also has the bad records to leave out.
"""

import dataclasses
import functools
import io
import json
import sys
import zipfile
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.input_files import InputFile, find_file
from albert_tf.data.record_files import (
    PAGE,
    BadRecords,
    ScannedFile,
    damaged_at,
    find_compression,
    scan_files,
)
from albert_tf.data.record_spec import RecordSpec
from albert_tf.errors import InputError

_Column = TypeVar("_Column", np.ndarray, tf.Tensor)


class _Pages(NamedTuple, Generic[_Column]):
    """The pages with good records, in the order of the files; all columns are int64 (n,).

    Attributes:
        file: index of the file.
        begin: first byte.
        end: byte after the last.
        first: number of the first record in the file, from 1.
        records: number of records, good and bad.
        good: number of good records.
    """

    file: _Column
    begin: _Column
    end: _Column
    first: _Column
    records: _Column
    good: _Column


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """The pages of uncompressed TFRecord files, and which of their records are left out.

    Attributes:
        inputs: the files as they were when the index was made.
        checked: what their records were checked against: the text of a `RecordSpec`, or of None.
        scanned: pages and bad records of each file.
    """

    inputs: Sequence[InputFile]
    checked: str
    scanned: Sequence[ScannedFile]

    @functools.cached_property
    def good_counts(self) -> np.ndarray:
        """Numbers of good records of all pages, int64 (n,), n >= 0."""
        return self._pages.good

    def read(self, page: tf.Tensor) -> tf.Tensor:
        """Returns the good records of a page, string (good,); `page` is an index into `good_counts`."""
        pages = self._tensors
        # TensorFlow's class for TFRecord files always begins at the first byte.
        variant = tf.raw_ops.TFRecordDatasetV2(
            filenames=self._paths[pages.file[page]],
            compression_type="",
            buffer_size=pages.end[page] - pages.begin[page],
            byte_offsets=pages.begin[page],
        )
        records = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
        count = pages.records[page]
        every = records.take(count).batch(count, drop_remainder=True).get_single_element()
        return tf.boolean_mask(every, self._is_good(page))

    def name(self, page: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the names of the records of `read`: files, string (good,), and numbers from 1."""
        numbers = tf.boolean_mask(self._numbers(page), self._is_good(page))
        path = self._paths[self._tensors.file[page]]
        return tf.fill(tf.shape(numbers), path), numbers

    def _numbers(self, page: tf.Tensor) -> tf.Tensor:
        return self._tensors.first[page] + tf.range(self._tensors.records[page])

    def _is_good(self, page: tf.Tensor) -> tf.Tensor:
        left_out = self._left_out[self._tensors.file[page]]
        return tf.reduce_all(self._numbers(page)[:, tf.newaxis] != left_out, axis=1)

    @functools.cached_property
    def _pages(self) -> _Pages[np.ndarray]:
        columns = [_pages_of(number, file) for number, file in enumerate(self.scanned)]
        pages = _Pages(*map(np.concatenate, zip(*columns, strict=True)))
        return _Pages(*(column[pages.good > 0] for column in pages))

    # `init_scope`, because tensors that are made in a graph cannot be used outside of it.
    @functools.cached_property
    def _tensors(self) -> _Pages[tf.Tensor]:
        with tf.init_scope():
            return _Pages(*(tf.constant(column, tf.int64) for column in self._pages))

    @functools.cached_property
    def _paths(self) -> tf.Tensor:
        with tf.init_scope():
            return tf.constant([file.path for file in self.inputs], tf.string)

    @functools.cached_property
    def _left_out(self) -> tf.RaggedTensor:
        with tf.init_scope():
            numbers = [list(file.bad.faults) for file in self.scanned]
            return tf.ragged.constant(numbers, tf.int64, ragged_rank=1)

    def save(self, path: str) -> None:
        """Writes the index to a file.

        Raises:
            StoppedError: the file cannot be written.
        """
        bad = [dataclasses.astuple(file.bad) for file in self.scanned]
        offsets = [file.page_offsets for file in self.scanned]
        content = io.BytesIO()
        np.savez(
            content,
            about=json.dumps({"files": self.inputs, "checked": self.checked, "bad": bad}),
            pages=[len(of_file) for of_file in offsets],
            offsets=np.concatenate(offsets),
        )
        files.write_bytes(path, content.getvalue())


def _pages_of(number: int, file: ScannedFile) -> _Pages[np.ndarray]:
    begin, end = file.page_offsets[:-1], file.page_offsets[1:]
    first = 1 + PAGE * np.arange(len(begin))
    records = np.minimum(PAGE, file.bad.count + 1 - first)
    page_of_bad = (np.array(list(file.bad.faults), np.int64) - 1) // PAGE
    good = records - np.bincount(page_of_bad, minlength=len(begin))
    return _Pages(np.full(len(begin), number), begin, end, first, records, good)


def index_records(
    paths: Sequence[str], spec: RecordSpec | None = None, description: str = "indexing records"
) -> RecordIndex:
    """Reads some files and indexes them.

    Args:
        paths: uncompressed TFRecord files.
        spec: specification of the records; those that don't match it, and the rest of damaged files, are
            left out. None to leave out nothing.
        description: name of the work in progress lines.

    Raises:
        InputError: a file cannot be read, is compressed, or is damaged and `spec` is None.
    """
    for path in paths:
        if find_compression(path) != "none":
            raise InputError(
                f"{path}: compressed; expected uncompressed records, because the run has an index"
            )
    inputs = [find_file(path) for path in paths]
    scanned = scan_files(paths, spec, description)
    for path, file in zip(paths, scanned, strict=True):
        if spec is None and file.bad.is_damaged:
            raise damaged_at(path, file.bad.count + 1)
    return RecordIndex(inputs, repr(spec), scanned)


def load_index(path: str, paths: Sequence[str], spec: RecordSpec | None) -> RecordIndex | None:
    """Reads an index from a file.

    Args:
        path: file of the index.
        paths: files that it has to be of, as they are now.
        spec: specification that their records have to be checked against; None if they need no check.

    Returns:
        None if there is no such index.

    Raises:
        InputError: a file cannot be read.
    """
    if not tf.io.gfile.exists(path):
        return None
    try:
        with np.load(io.BytesIO(files.read_bytes(path))) as arrays:
            about = json.loads(str(arrays["about"]))
            offsets = np.split(arrays["offsets"], np.cumsum(arrays["pages"])[:-1])
        inputs = [InputFile(*file) for file in about["files"]]
        bad = [
            BadRecords(count, {int(number): fault for number, fault in faults.items()}, is_damaged)
            for count, faults, is_damaged in about["bad"]
        ]
        index = RecordIndex(inputs, about["checked"], list(map(ScannedFile, bad, offsets)))
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError):
        print(f"warning: {path}: damaged; making it again", file=sys.stderr)
        return None
    now = [find_file(path) for path in paths]
    if (inputs, index.checked) == (now, repr(spec)):
        return index
    known = {file.path for file in inputs}
    if changed := [file.path for file in now if file.path in known and file not in inputs]:
        reason = f"{changed[0]} has changed"
    else:
        reason = "made with other flags" if inputs == now else "made of other files"
    print(f"warning: {path}: {reason}; making it again", file=sys.stderr)
    return None
