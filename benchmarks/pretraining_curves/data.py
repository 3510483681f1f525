"""Books to records, and the records' batches for a program that cannot read records."""

import os
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data.input_pipeline import pretraining_batches, pretraining_evaluation_batches
from albert_tf.data.pretraining_stats import PretrainingDataStats
from albert_tf.data.record_files import RecordFiles
from albert_tf.data.record_order import RecordOrder
from albert_tf.data.record_spec import pretraining_record
from albert_tf.errors import InputError
from albert_tf.tasks import pretraining_data

# Every tenth book in alphabetical order is held out whole, the fourth being the first of them.
_HELD_OUT = slice(3, None, 10)
_NO_BOOKS = {"provenance", "readme", "license"}


class Records(NamedTuple):
    """Record files of one shape.

    Attributes:
        train: the file to train on.
        held_out: the file to evaluate on.
        held_out_count: its records.
        vocabulary: SentencePiece model.
        max_seq_length: S.
        max_predictions_per_seq: M.
    """

    train: pathlib.Path
    held_out: pathlib.Path
    held_out_count: int
    vocabulary: pathlib.Path
    max_seq_length: int
    max_predictions_per_seq: int

    def write_batches(
        self, path: pathlib.Path, count: int, batch_size: int, shuffle_buffer: int, seed: int
    ) -> None:
        """Writes the first batches that `run_pretraining.py` trains on with these settings."""
        records = RecordFiles([str(self.train)])
        order = RecordOrder(records, batch_size, shuffle_buffer, seed)
        batches = pretraining_batches(order, self._parse)
        _write(batches.take(count), count, path)

    def write_evaluation_batches(self, path: pathlib.Path, count: int, batch_size: int) -> None:
        """Writes the first batches that `run_pretraining.py` evaluates on."""
        batches = pretraining_evaluation_batches(
            RecordFiles([str(self.held_out)]), self._parse, batch_size
        )
        _write(batches.take(count), count, path)

    def _parse(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        return pretraining_record(self.max_seq_length, self.max_predictions_per_seq).parse(
            serialized
        )


def find_books(folder: str) -> tuple[list[str], list[str]]:
    """Returns the books to train on and those that are held out.

    Args:
        folder: a text file for each book; what says where they are from is no book.

    Raises:
        InputError: there are fewer than five.
    """
    names = sorted(
        name
        for name in (os.listdir(folder) if os.path.isdir(folder) else [])
        if name.endswith(".txt") and pathlib.Path(name).stem.lower() not in _NO_BOOKS
    )
    books = [os.path.join(folder, name) for name in names]
    if len(books) < 5:
        raise InputError(f"--text={folder}: {len(books)} files .txt; expected at least 5 books")
    held_out = books[_HELD_OUT]
    return [book for book in books if book not in held_out], held_out


def make_records(
    text: str,
    output_dir: pathlib.Path,
    spm_model_file: str | None,
    vocab_size: int,
    max_seq_length: int,
    max_predictions_per_seq: int,
    dupe_factor: int,
) -> Records:
    """Makes the records of both parts, and the vocabulary; keeps what an earlier run has made.

    Args:
        text: folder of books.
        output_dir: where records and vocabulary go.
        spm_model_file: the vocabulary; None to train one on the books that are not held out.
        vocab_size: pieces of the vocabulary to train.
        max_seq_length: S.
        max_predictions_per_seq: M.
        dupe_factor: copies of the training text, each with other segments and masks.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    vocabulary = pathlib.Path(spm_model_file or output_dir / "vocabulary.model")
    parts = []
    for name, books, copies in zip(
        ("train", "held_out"), find_books(text), (dupe_factor, 1), strict=True
    ):
        options = pretraining_data.PretrainingDataOptions(
            input_file=tuple(books),
            input_format="text",
            encoding_errors="replace",
            output_file=str(output_dir / f"{name}-{max_seq_length}.tfrecord"),
            spm_model_file=str(vocabulary),
            train_vocab=not vocabulary.exists(),
            vocab_size=vocab_size,
            max_seq_length=max_seq_length,
            max_predictions_per_seq=max_predictions_per_seq,
            dupe_factor=copies,
        )
        if not os.path.exists(options.stats_file):
            print(f"{name}: {', '.join(map(os.path.basename, books))}", flush=True)
            pretraining_data.run(options)
        parts.append(options)
    train, held_out = parts
    made = PretrainingDataStats.from_json_dict(files.read_json(held_out.stats_file)["counts"])
    return Records(
        pathlib.Path(train.output_file),
        pathlib.Path(held_out.output_file),
        made.instances,
        vocabulary,
        max_seq_length,
        max_predictions_per_seq,
    )


def _write(batches: tf.data.Dataset, count: int, path: pathlib.Path) -> None:
    """Writes batches as one structured array (count,), a field (B, ...) for each feature."""
    array = None
    for number, batch in enumerate(batches.as_numpy_iterator()):
        if array is None:
            dtype = np.dtype([(name, each.dtype, each.shape) for name, each in batch.items()])
            array = np.lib.format.open_memmap(path, "w+", dtype, (count,))
        for name, each in batch.items():
            array[number][name] = each
    array.flush()
