import pathlib

import pytest

from albert_tf.errors import InputError, StoppedError
from albert_tf.export import versions

NAMES = ("ids", "text")


def write(paths, names):
    with versions.write_version(paths) as incomplete:
        for name in names:
            pathlib.Path(incomplete[name]).mkdir()


def test_one_number_above_the_greatest_of_any(tmp_path):
    for name in ("ids/9", "ids/notes", "text/10", "text/011.incomplete"):
        (tmp_path / name).mkdir(parents=True)
    paths = versions.next_version(str(tmp_path), NAMES)
    assert paths == {name: str(tmp_path / name / "11") for name in NAMES}
    write(paths, NAMES)
    assert all(pathlib.Path(path).is_dir() for path in paths.values())


def test_none_appears_where_one_fails(tmp_path):
    paths = versions.next_version(str(tmp_path), NAMES)
    with pytest.raises(StoppedError, match="text/1: cannot be written"):
        write(paths, ["ids"])
    assert [path for path in tmp_path.rglob("*") if path.name not in NAMES] == []


def test_folder_that_cannot_be_made_names_the_flag(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"):
        versions.next_version(str(tmp_path / "file"), NAMES)
