"""Records to pre-train on from a folder of books, of which every tenth is held out."""

import os
import pathlib
from typing import NamedTuple

from albert_tf.errors import InputError

# Of the books in alphabetical order; the fourth is the first one that is held out.
_HELD_OUT = slice(3, None, 10)
_NO_BOOKS = {"provenance", "readme", "license"}


class Records(NamedTuple):
    """The record files to train and to evaluate on."""

    train: str
    held_out: str


def find_books(folder: str) -> tuple[list[str], list[str]]:
    """Returns the books or other documents, .txt or .rst, to train on and the held-out ones.

    Raises:
        InputError: the folder holds fewer than five books.
    """
    names = sorted(
        name
        for name in (os.listdir(folder) if os.path.isdir(folder) else [])
        if name.endswith((".txt", ".rst")) and pathlib.Path(name).stem.lower() not in _NO_BOOKS
    )
    books = [os.path.join(folder, name) for name in names]
    if len(books) < 5:
        raise InputError(
            f"--text={folder}: {len(books)} files .txt or .rst; expected at least 5 books"
        )
    held_out = books[_HELD_OUT]
    return [book for book in books if book not in held_out], held_out


def make_records(
    text: str, folder: pathlib.Path, vocabulary: str, name: str, dupe_factor: int, **options
) -> Records:
    """Makes the records of both parts, and a missing vocabulary; keeps those of an earlier run.

    `name` is in the names of the records, and `dupe_factor` the copies of the books to train on; further
    options are those of `PretrainingDataOptions`.
    """
    from albert_tf.tasks import pretraining_data

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    books = dict(zip(("train", "held_out"), find_books(text), strict=True))
    for part, of_part in books.items():
        given = pretraining_data.PretrainingDataOptions(
            input_file=tuple(of_part),
            input_format="text",
            output_file=str(folder / f"{part}-{name}.tfrecord"),
            spm_model_file=vocabulary,
            train_vocab=not os.path.exists(vocabulary),
            dupe_factor=dupe_factor if part == "train" else 1,
            **options,
        )
        made.append(given.output_file)
        if not os.path.exists(given.stats_file):
            pretraining_data.run(given)
    return Records(*made)
