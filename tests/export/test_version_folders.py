import pathlib

import pytest

from albert_tf.errors import InputError, StoppedError
from albert_tf.export import version_folders

NAMES = ("ids", "text")


def write(paths, names):
    with version_folders.write_version(paths) as incomplete:
        for name in names:
            pathlib.Path(incomplete[name]).mkdir()


def test_version_is_one_above_the_greatest_of_all(tmp_path):
    for name in ("ids/9", "ids/notes", "text/10", "text/011.incomplete"):
        (tmp_path / name).mkdir(parents=True)
    paths = version_folders.next_version(str(tmp_path), NAMES)
    assert paths == {name: str(tmp_path / name / "11") for name in NAMES}
    write(paths, NAMES)
    assert all(pathlib.Path(path).is_dir() for path in paths.values())


def test_no_version_appears_if_one_fails(tmp_path):
    paths = version_folders.next_version(str(tmp_path), NAMES)
    with pytest.raises(StoppedError, match="text/1: cannot be written"):
        write(paths, ["ids"])
    assert [path for path in tmp_path.rglob("*") if path.name not in NAMES] == []


def test_names_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"):
        version_folders.next_version(str(tmp_path / "file"), NAMES)
