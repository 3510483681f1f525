import errno
import fcntl
import os
import pathlib
import shutil

import pytest

from albert_tf import files, folders
from albert_tf.errors import StoppedError
from tests.helpers import largest_file, refused


def test_lines_of_a_file_from_anywhere(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffone\r\n\ntwo\x0b\rthree\u2028\nlast".encode())
    lines = [(1, "one"), (2, ""), (3, "two\x0b\rthree\u2028"), (4, "last")]
    assert list(files.read_lines(str(path))) == lines


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("lines", [["x" * 3_000_000, "", "é" * 1_000_000, "short"], []])
def test_lines_of_megabytes_and_none(tmp_path, lines, end):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines) + end * bool(lines), "utf-8", newline="")
    assert [line for _, line in files.read_lines(str(path))] == lines


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"good\nb\xe4d\n", "line 2: byte 2 is 0xe4, which is not UTF-8"),
        # Counted from the start of the file.
        (b"\xef\xbb\xbfb\xe4d\n", "line 1: byte 5 is 0xe4, which is not UTF-8"),
        (b"PAR1\x15\x04\xd0", "line 1: begins like a Parquet file; expected UTF-8 text"),
        (b"%PDF-1.7\n", "line 1: begins like a PDF document; expected UTF-8 text: write its text"),
        ("é\n".encode("utf-16"), "line 1: begins like UTF-16 text; expected UTF-8 text"),
    ],
)
def test_line_that_is_not_utf8_is_named(tmp_path, content, message):
    (tmp_path / "text.txt").write_bytes(content)
    with refused(rf"text\.txt, {message}"):
        list(files.read_lines(str(tmp_path / "text.txt")))


def test_unreadable_files_are_named(tmp_path):
    for read in (files.read_bytes, files.read_json, lambda path: [*files.read_lines(path)]):
        with refused("none: cannot be read: No such file"):
            read(str(tmp_path / "none"))
        with refused("a folder; expected a file"):
            read(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{\n"a": ]', "a.json, line 2: not JSON: Expecting value"),
        (b'"\xe9"', "a.json: not JSON: byte 2 is not UTF-8"),
        pytest.param(b"[" * 200_000, "a.json: JSON nested too deeply", id="deep"),
        pytest.param(b"7" * 10_000, "a.json: JSON with an integer of more than 4300", id="digits"),
    ],
)
def test_bad_json_is_one_line(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with refused(message):
        files.read_json(str(tmp_path / "a.json"))


def test_globs(tmp_path):
    for name in ("b.txt", "a.txt", "c.md", "d[1].md"):
        (tmp_path / name).touch()
    (tmp_path / "folder.txt").mkdir()
    patterns = [str(tmp_path / name) for name in ("*.txt", "a.*", "c.md", "d[1].md")]
    found = [os.path.basename(path) for path in files.expand_globs(patterns)]
    assert found == ["a.txt", "b.txt", "c.md", "d[1].md"]
    with refused(r"^no file matches '.*/\*\.rst'"):
        files.expand_globs([str(tmp_path / "*.rst")])


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "result.json"
    files.write_json(str(path), {"old": "half a pair: \ud83d"})

    def fail_half_way():
        with files.write_atomically(str(path)) as incomplete:
            pathlib.Path(incomplete).write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert files.read_json(str(path)) == {"old": "half a pair: \ud83d"}
    assert os.listdir(tmp_path) == ["result.json"]


def test_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoppedError, match="file/result: cannot be written"):
        files.write_text(str(tmp_path / "file" / "result"), "text")
    with refused(r"cannot make the folder '.*file/folder'"):
        files.make_directory(str(tmp_path / "file" / "folder"))
    with (
        pytest.raises(StoppedError, match=r"\.lock: cannot be written: File too large"),
        largest_file(0),
        folders.lock_folder(str(tmp_path)),
    ):
        pass


def test_rest_of_another_run_that_cannot_be_removed_is_named(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    abandoned = tmp_path / "result.0a1b2c-1-00112233.incomplete"
    abandoned.mkdir()
    os.utime(abandoned, (1, 1))
    with pytest.raises(StoppedError, match="result: cannot be written: Permission denied"):
        files.write_text(str(tmp_path / "result"), "text")
    with pytest.raises(StoppedError, match="result: cannot be written: Permission denied"):
        files.write_together([str(tmp_path / "result")]).__enter__()


def test_files_of_one_prefix_appear_when_all_are_complete(tmp_path):
    prefix = str(tmp_path / "ckpt")
    paths = [prefix + ".data", prefix + ".index"]
    with files.write_together(paths) as folder:
        for suffix in (".index", ".data"):
            pathlib.Path(folder, "ckpt" + suffix).write_text(suffix)
        assert not list(tmp_path.glob("ckpt.data"))
    assert sorted(os.listdir(tmp_path)) == ["ckpt.data", "ckpt.index"]

    def fail_half_way():
        with files.write_together(paths) as folder:
            pathlib.Path(folder, "ckpt.data").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert (tmp_path / "ckpt.data").read_text() == ".data"
    assert sorted(os.listdir(tmp_path)) == ["ckpt.data", "ckpt.index"]


def test_locked_folder_is_free_again_when_its_owner_is_done(tmp_path):
    message = rf"^{tmp_path}: process \d+ on .* is training in this folder; wait until"
    for _ in range(2):
        with (
            folders.lock_folder(str(tmp_path)),
            refused(message),
            folders.lock_folder(str(tmp_path)),
        ):
            pass


@pytest.mark.parametrize("where", ["no locks", "gs://bucket/folder", "Windows"])
def test_folder_is_not_locked_on_a_file_system_without_locks(tmp_path, monkeypatch, where):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    if where == "Windows":
        monkeypatch.setattr(folders, "fcntl", None)
    path = where if "://" in where else str(tmp_path)
    with folders.lock_folder(path), folders.lock_folder(path):  # a lock would refuse the second
        assert os.listdir(tmp_path) == ([".lock"] if where == "no locks" else [])


def test_remote_files_are_reached_through_tensorflow():
    """TensorFlow's file system in memory stands for one like `gs://`."""
    files.make_directory("ram://files/folder")
    path = "ram://files/folder/a.json"
    files.write_json(path, [7])
    assert files.read_json(path) == [7]
    assert files.expand_globs(["ram://files/folder/*"]) == [path]
    assert [files.exists(path), files.is_folder("ram://files/folder")] == [True, True]
    assert files.status(path).size == len("[\n  7\n]\n")
    assert list(files.walk("ram://files/folder")) == [("ram://files/folder", [], ["a.json"])]
    with refused("ram://files/none: cannot be read: "):
        files.read_bytes("ram://files/none")
    files.remove("ram://files/folder")
    assert not files.exists(path)
