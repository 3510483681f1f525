"""Outputs appear together; a run that was stopped is finished by the same one, and by no other."""

import os
import pathlib
import shutil

import pytest

from albert_tf.errors import InputError, StoppedError
from albert_tf.resumable import make_outputs
from tests.helpers import refused


@pytest.fixture
def pair(tmp_path):
    """Two files in two folders."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    return [str(tmp_path / "one" / "a"), str(tmp_path / "two" / "b")]


def make_pair(pair, request=7, content="new", overwrite=False, fail=None):
    """Makes the files that are not there; returns which. `fail` is raised after the first."""
    made = []

    def make(incomplete, _):
        for path, name in incomplete.items():
            if not os.path.exists(name):
                pathlib.Path(name).write_text(content)
                made.append(os.path.basename(path))
            if fail is not None:
                raise fail

    make_outputs(pair[0], dict.fromkeys(pair, "--files"), {"request": request}, overwrite, make)
    return made


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_new_files_appear_together_and_are_not_replaced(pair, tmp_path):
    (tmp_path / "two" / "a.incomplete").mkdir()  # an empty folder for the work is used
    assert make_pair(pair) == ["a", "b"]
    assert files_below(tmp_path) == ["one/a", "two/b"]
    (tmp_path / "one" / "a").unlink()
    with refused(r"^--files: .*/two/b exists already; remove it, choose"):
        make_pair(pair)
    assert files_below(tmp_path) == ["two/b"]
    assert sorted(os.listdir(tmp_path / "two")) == ["b"]


def test_overwrite_replaces_files(pair, tmp_path):
    make_pair(pair, content="old")
    make_pair(pair, overwrite=True)
    assert (tmp_path / "one" / "a").read_text() == (tmp_path / "two" / "b").read_text() == "new"


def test_input_error_leaves_nothing(pair, tmp_path):
    with refused(r"^no text$"):
        make_pair(pair, fail=InputError("no text"))
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("stop", [StoppedError("the disk is full"), KeyboardInterrupt(), OSError()])
def test_resumed_run_keeps_complete_files(pair, tmp_path, stop):
    with pytest.raises(type(stop)):
        make_pair(pair, content="kept", fail=stop)
    assert make_pair(pair) == ["b"]
    assert files_below(tmp_path) == ["one/a", "two/b"]
    assert (tmp_path / "one" / "a").read_text() == "kept"


def test_another_request_restarts(pair, tmp_path):
    with pytest.raises(StoppedError, match=r"^stopped; complete work is kept in '.*/one/a.incomp"):
        make_pair(pair, content="old", fail=StoppedError("stopped"))
    assert make_pair(pair, request=8) == ["a", "b"]
    assert (tmp_path / "one" / "a").read_text() == "new"


@pytest.mark.parametrize(("function", "has_name"), [("replace", False), ("rmtree", True)])
def test_run_stopped_at_its_end(pair, tmp_path, monkeypatch, function, has_name):
    module = os if function == "replace" else shutil
    call = getattr(module, function)

    def call_once(*paths, **options):
        call(*paths, **options)
        if function == "rmtree" or os.fsdecode(paths[-1]) in pair:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, function, call_once)
        with pytest.raises(KeyboardInterrupt):
            make_pair(pair)
    assert [os.path.exists(path) for path in pair] == [True, has_name]
    # Another request refuses the file that has its name; the same one only does the rest.
    with refused(r"/one/a exists already"):
        make_pair(pair, request=8)
    assert (tmp_path / "one" / "a").read_text() == "new"
    assert make_pair(pair) == []
    assert files_below(tmp_path) == ["one/a", "two/b"]


def test_folder_of_that_name_is_refused_before_the_work(pair, tmp_path):
    (tmp_path / "two" / "b").mkdir()
    for overwrite in (False, True):
        with refused(r"/two/b is a folder; expected the name"):
            make_pair(pair, overwrite=overwrite)
    assert sorted(os.listdir(tmp_path / "two")) == ["b"]
    assert os.listdir(tmp_path / "one") == []


def test_other_files_in_the_work_folder_are_kept(pair, tmp_path):
    work = tmp_path / "two" / "a.incomplete"
    work.write_text("precious")
    with refused(r"^cannot make the folder .*/two/a\.incomplete"):
        make_pair(pair)
    assert work.read_text() == "precious"
    work.unlink()
    work.mkdir()
    (work / "notes.txt").write_text("precious")
    assert make_pair(pair) == ["a", "b"]
    assert files_below(tmp_path) == ["one/a", "two/a.incomplete/notes.txt", "two/b"]


def test_parts_are_kept_for_another_request(pair):
    def make(incomplete, parts):
        for name in incomplete.values():
            assert not os.path.exists(name)
            pathlib.Path(name).write_text("x")
        found.append(os.listdir(parts))
        for name in (f"{len(found)}", f"{len(found)}.incomplete"):
            (pathlib.Path(parts) / name).touch()
        if len(found) < 3:
            raise StoppedError("stopped")

    found, named = [], dict.fromkeys(pair, "--files")
    for request in ("first", "second"):
        with pytest.raises(StoppedError):
            make_outputs(pair[0], named, {"is": request}, False, make)
    make_outputs(pair[0], named, {"is": "third"}, False, make)
    assert [len(parts) for parts in found] == [0, 1, 2]


def test_files_that_another_process_is_making_are_refused(pair, tmp_path):
    def make(incomplete, _):
        with refused(r"one/a\.incomplete: process \d+ on .* is making the same files; wait until"):
            make_pair(pair, content="second")
        for name in incomplete.values():
            pathlib.Path(name).write_text("first")

    make_outputs(pair[0], dict.fromkeys(pair, "--files"), {"request": 7}, False, make)
    assert files_below(tmp_path) == ["one/a", "two/b"]
    assert (tmp_path / "one" / "a").read_text() == "first"
