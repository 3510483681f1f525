"""Files appear complete, whoever writes them at once, and under any name."""

import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf import files
from albert_tf.unfinished import INCOMPLETE

_WRITE = """
import sys
from albert_tf import files
path, letter, times = sys.argv[1:]
for _ in range(int(times)):
    with files.write_atomically(path) as incomplete, files.open_file(incomplete, "wb") as file:
        for _ in range(64):
            file.write(letter.encode() * 1000)
"""


def test_of_two_writers_the_last_complete_one_wins(tmp_path):
    path = str(tmp_path / "result")
    with files.write_atomically(path) as first, files.open_file(first, "wb") as file:
        file.write(b"first")
        files.write_text(path, "second")
        assert pathlib.Path(path).read_text() == "second"
    assert pathlib.Path(path).read_text() == "first"
    assert os.listdir(tmp_path) == ["result"]


def test_processes_and_threads_write_one_file(tmp_path):
    path = str(tmp_path / "result")
    processes = [subprocess.Popen([sys.executable, "-c", _WRITE, path, c, "20"]) for c in "ab"]
    threads = [
        threading.Thread(target=lambda c=c: [files.write_text(path, c * 64_000) for _ in range(20)])
        for c in "cd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(60) for process in processes] == [0, 0]
    content = pathlib.Path(path).read_text()
    assert content == content[0] * 64_000
    assert os.listdir(tmp_path) == ["result"]


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "result"
    kill = "file.write(b'half'); file.flush(); import os; os.kill(os.getpid(), 9)"
    program = _WRITE.replace("file.write(letter.encode() * 1000)", kill)
    subprocess.run([sys.executable, "-c", program, str(path), "a", "1"])
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("result.")
    assert left.name.endswith(INCOMPLETE)
    # Of another file, of another machine, and the user's own.
    others = ["resul.0a1b2c-1-00112233.incomplete", "result.0a1b2c-1-00112233.incomplete"]
    others.append("result.incomplete")
    for name in others:
        (tmp_path / name).touch()
    with files.write_atomically(str(path)) as mine:
        pathlib.Path(mine).touch()
        files.write_text(str(path), "whole")
        assert os.path.exists(mine)  # this process is alive
    assert sorted(os.listdir(tmp_path)) == sorted(["result", *others])
    os.utime(tmp_path / others[1], (1, 1))  # nobody writes for years
    files.write_text(str(path), "whole")
    assert sorted(os.listdir(tmp_path)) == sorted(["result", others[0], others[2]])
    files.remove_unfinished(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["result", "result.incomplete"]


# All bytes that a name can have, most often those that have a meaning somewhere.
_NAMES = st.lists(
    st.sampled_from(
        [b"a", b"[", b"]", b"*", b"?", b"\\", b" ", b"\n", b"-", b"\xe9", b"~", "é".encode()]
    )
    | st.integers(1, 255).filter(lambda byte: byte != ord("/")).map(lambda byte: bytes([byte])),
    min_size=1,
    max_size=60,
).map(b"".join)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(name=_NAMES, folder=_NAMES)
def test_names_of_any_bytes(tmp_path_factory, name, folder):
    if name in (b".", b"..") or folder in (b".", b"..") or name.endswith(INCOMPLETE.encode()):
        return
    top = os.fsencode(tmp_path_factory.mktemp("names"))
    path = files.as_path(os.fsdecode(os.path.join(top, folder, name)))
    files.make_directory(os.path.dirname(path))
    files.write_text(path, "content")
    assert os.listdir(os.path.join(top, folder)) == [name]
    assert files.read_bytes(path) == b"content"
    assert files.exists(path)
    assert files.status(path).size == len("content")
    parent = os.path.dirname(path)
    assert files.expand_globs([path]) == [path]
    assert files.matches(parent, "*") == [path]
    assert files.matches(parent, files.escape(os.path.basename(path))) == [path]
    assert [names for _, _, names in files.walk(parent)] == [files.list_names(parent)]
    with files.write_together([path]) as together:
        files.write_text(os.path.join(together, os.path.basename(path)), "new")
    assert files.read_bytes(path) == b"new"
    files.remove(path)
    assert not files.exists(path)


@pytest.mark.parametrize("name", [b"long" * 60, b"\xe9" * 250])
def test_names_that_fill_all_bytes(tmp_path, name):
    path = files.as_path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
    files.write_text(path, "content")
    assert os.listdir(os.fsencode(tmp_path)) == [name]


def test_patterns_in_folders_of_any_name(tmp_path):
    folder = tmp_path / "a\\[1]*"
    folder.mkdir()
    for name in (
        "one.txt",
        "two.txt",
        "t*.txt",
        "three.md",
        "four.txt.0a1b2c-1-00112233.incomplete",
    ):
        (folder / name).touch()
    for pattern, names in {
        "*.txt": ["one.txt", "t*.txt", "two.txt"],
        "t*.txt": ["t*.txt"],
        r"t\*.*": ["t*.txt"],
        "[^o]*.txt": ["t*.txt", "two.txt"],
        "four*": [],
    }.items():
        if names:
            found = files.expand_globs([f"{folder}/{pattern}"])
            assert [os.path.basename(path) for path in found] == names
        else:
            with pytest.raises(ValueError, match="no file matches"):
                files.expand_globs([f"{folder}/{pattern}"])
    assert files.expand_globs([f"{tmp_path}/*/three.md"]) == [f"{folder}/three.md"]


def test_names_that_are_none():
    for name in ("a\0b", "\ud83d"):
        assert not files.exists(name)
        with pytest.raises(ValueError, match="cannot be read: not the name of a file"):
            files.read_bytes(name)


def test_records_and_arrays_under_names_that_are_not_utf8(tmp_path):
    from albert_tf.checkpoints.safetensors_files import read_tensors, write_tensors
    from albert_tf.data.pretraining.record_files import scan
    from albert_tf.data.records import unmasked_record, write_records

    path = files.as_path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9\\[1]"))
    write_tensors(path, {"a": np.arange(3.0)})
    np.testing.assert_array_equal(read_tensors(path)["a"], np.arange(3.0))
    write_records(path, [b"one", b"two"])
    assert scan(path, unmasked_record(8)) == 2
