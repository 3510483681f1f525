import pytest

from albert_tf import files
from albert_tf.errors import InputError
from benchmarks.docstring_names import LABELS, make_rows, write_rows

SOURCE = '''
"""Not a docstring of a function."""

def join(first, *, second=0):
    """Join `first` to what ``second`` says, as :func:`~toy.text.split` would undo, with NumPy.

    Parameters
    ----------
    first : list

    * a list item that names `split` and other things is skipped here.

    See `split()` of numpy.char, or the class `Joiner`, for other ways; `unknown` is unknown 🙂.

    >>> join(["a"]) is no sentence about `split`.
    """

class Joiner:
    """Joins all the parts with `glue` when `Joiner` is called, or never."""

    def __init__(self, glue):
        pass

def split(text):
    """Short `text`."""
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "site" / "toy_names"
    (folder / "tests").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "text.py").write_text(SOURCE)
    (folder / "tests" / "test_text.py").write_text(SOURCE.replace("Join", "Test"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return folder.name


def test_names_are_found_where_the_source_says(package, tmp_path):
    rows = [row for of_split in make_rows([package]).values() for row in of_split]
    found = {
        row["text"]: [(row["text"][s["start"] : s["end"]], s["label"]) for s in row["spans"]]
        for row in rows
    }
    assert found == {
        "Join first to what second says, as toy.text.split would undo, with NumPy.": [
            ("first", "PARAMETER"),
            ("second", "PARAMETER"),
            ("toy.text.split", "FUNCTION"),
            ("NumPy", "LIBRARY"),
        ],
        "See split() of numpy.char, or the class Joiner, for other ways; unknown is unknown 🙂.": [
            ("split", "FUNCTION"),
            ("Joiner", "CLASS"),
        ],
        "Joins all the parts with glue when Joiner is called, or never.": [
            ("glue", "PARAMETER"),
            ("Joiner", "CLASS"),
        ],
    }
    assert {label for spans in found.values() for _, label in spans} == set(LABELS)
    paths = write_rows(str(tmp_path / "data"), [package])
    written = [row for path in paths.values() for row in files.read_json_lines(path)]
    assert sorted(row["text"] for row in written) == sorted(found)


def test_a_missing_package_is_one_line():
    with pytest.raises(InputError, match="no_such_package is not installed"):
        make_rows(["no_such_package"])
