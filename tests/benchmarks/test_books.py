import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from benchmarks.books import find_books, make_records


def test_every_tenth_book_is_held_out_and_other_files_are_left_out(tmp_path):
    for number in range(14):
        (tmp_path / f"book{number:02d}.txt").write_text("text")
    for name in ("PROVENANCE.txt", "notes.md"):
        (tmp_path / name).write_text("text")
    train, held_out = find_books(str(tmp_path))
    assert [pathlib.Path(book).stem for book in held_out] == ["book03", "book13"]
    assert len(train) == 12
    assert not set(train) & set(held_out)
    with pytest.raises(InputError, match=f"--text={tmp_path}/absent: 0 files"):
        find_books(f"{tmp_path}/absent")


def test_records_of_an_earlier_run_are_kept(tmp_path):
    rng = np.random.default_rng(5)
    words = ["".join(rng.choice(list("abcdefghij"), 4)) for _ in range(150)]
    (tmp_path / "books").mkdir()
    for number in range(5):
        sentences = [" ".join(rng.choice(words, 8)).capitalize() + "." for _ in range(100)]
        (tmp_path / "books" / f"book{number}.txt").write_text("\n\n".join(sentences))

    def make():
        return make_records(
            *(str(tmp_path / "books"), tmp_path, str(tmp_path / "vocabulary.model"), "sop", 1),
            vocab_size=97,
            max_seq_length=16,
            max_predictions_per_seq=3,
        )

    records = make()
    assert (tmp_path / "vocabulary.model").exists()
    counts = [len(list(tf.data.TFRecordDataset(path))) for path in records]
    assert counts[0] > 3 * counts[1] > 0
    times = [pathlib.Path(path).stat().st_mtime_ns for path in records]
    assert make() == records
    assert [pathlib.Path(path).stat().st_mtime_ns for path in records] == times
