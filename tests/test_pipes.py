"""Pipes are inputs like files in a command, and named in one line elsewhere."""

import os
import threading

import pytest

from albert_tf import files
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.pretraining.input_files import expect_unchanged, find_files
from albert_tf.data.pretraining.record_files import count_records
from albert_tf.data.records import unmasked_record
from albert_tf.pipes import copied_pipes
from albert_tf.sources import find_model
from tests.helpers import refused


@pytest.fixture
def pipe(tmp_path):
    """Returns a function that makes a named pipe, into which a thread writes once."""
    threads = []

    def make(content):
        path = tmp_path / f"pipe{len(threads)}"
        os.mkfifo(path)
        thread = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
        thread.start()
        threads.append(thread)
        return str(path)

    return make


def test_a_pipe_is_read_as_often_as_a_file(pipe):
    path = pipe(b"one\ntwo\n")
    with copied_pipes():
        for _ in range(2):
            assert list(files.read_lines(path)) == [(1, "one"), (2, "two")]
        (file,) = find_files([path])
        assert (file.path, file.size) == (path, 8)
        with expect_unchanged([file]):
            pass


def test_a_pipe_without_a_name(tmp_path):
    """As a shell makes it of `<(...)`."""
    reader, writer = os.pipe()
    os.write(writer, b"text,label\na,yes\nb,no\n")
    os.close(writer)
    with copied_pipes():
        table = Table.read(f"/dev/fd/{reader}")
        assert (table.columns, [*map(list, table.rows)]) == (
            ("text", "label"),
            [["a", "yes"], ["b", "no"]],
        )
    os.close(reader)


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (b"text\tlabel\na, b\tyes\n", ("text", "label")),
        (b'{"text": "a", "label": 1}\n', ("text", "label")),
        (b'[{"text": "a", "label": 1}]', ("text", "label")),
        (b"text\na b\n", ("text",)),
    ],
)
def test_the_first_line_of_a_pipe_says_the_format_of_a_table(pipe, content, columns):
    with copied_pipes():
        assert Table.read(pipe(content)).columns == columns


def test_errors_name_the_pipe(pipe):
    path = pipe(b"good\nb\xe4d\n")
    with copied_pipes(), refused(f"^{path}, line 2: byte 2 is 0xe4"):
        list(files.read_lines(path))


def test_pipes_are_named_where_they_cannot_be_read(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)  # into which nobody writes
    with refused(f"^{path}: a pipe, which can only be read once; expected a file"):
        files.read_bytes(path)
    with copied_pipes():
        for read in (find_model, lambda path: count_records([path], unmasked_record(8))):
            with refused(f"^{path}: a pipe; expected a file"):
                read(path)
