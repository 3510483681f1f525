"""Workbooks of Excel: which sheet and cells are a table, and what is refused."""

import datetime
import io
import sys
import zipfile

import openpyxl
import pytest

from albert_tf.data.fine_tuning.tables import Table, is_table
from albert_tf.kinds import Classification
from tests.helpers import refused

ROWS = [("text", "label"), ("good", "yes"), ("bad", "no")]


def write(path, hidden=(), **sheets):
    """Writes a workbook with the rows of sheets."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        sheet.sheet_state = "hidden" if title in hidden else "visible"
        for row in rows:
            sheet.append(row)
    book.save(path)
    return str(path)


def change(path, old, new, member="xl/worksheets/sheet1.xml"):
    """Replaces a part of a file in a workbook."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert old in contents[member]
    contents[member] = contents[member].replace(old, new)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def rows_of(path):
    table = Table.read(path)
    return table.columns, [list(row) for row in table.rows], list(table.numbers)


def test_numbers_and_truth_values_are_typed(tmp_path):
    values = ["x", 3, 2.5, 0, True, False, None]
    path = write(tmp_path / "a.xlsx", a=[tuple("abcdefg"), values, [1, *values[1:6], "end"]])
    (row, _) = rows_of(path)[1]
    assert row == values
    assert [type(value) for value in row] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("rows", "columns", "expected", "numbers"),
    [
        ([*ROWS, (), (None, ""), ()], ("text", "label"), ROWS[1:], [2, 3]),
        ([(), (None, None), *ROWS], ("text", "label"), ROWS[1:], [4, 5]),
        ([(*row, None, "") for row in ROWS], ("text", "label"), ROWS[1:], [2, 3]),
        ([(None, *row) for row in ROWS], ("text", "label"), ROWS[1:], [2, 3]),
        (
            [ROWS[0], ("good",), (), ROWS[2]],
            ("text", "label"),
            [("good", None), (None, None), ("bad", "no")],
            [2, 3, 4],
        ),
        ([("n", "f"), (1, True), (0, False)], ("n", "f"), [(1, True), (0, False)], [2, 3]),
        ([("x ", None, 7), ("a", 0, "b")], ("x", "", "7"), [("a", 0, "b")], [2]),
    ],
)
def test_empty_rows_and_columns_around_a_table_are_left_out(
    tmp_path, rows, columns, expected, numbers
):
    path = write(tmp_path / "a.xlsx", first=[], second=rows, third=[(None, "")])
    assert rows_of(path) == (columns, list(map(list, expected)), numbers)


def test_a_table_may_be_larger_than_its_file_says(tmp_path):
    path = write(tmp_path / "a.xlsx", a=ROWS)
    change(path, b'<dimension ref="A1:B3"', b'<dimension ref="A1:A1"')
    assert len(rows_of(path)[1]) == 2


def test_control_characters_are_read_as_excel_writes_them(tmp_path):
    path = write(tmp_path / "a.xlsx", a=[("text",), ("a_x000D_\nb",)])
    assert rows_of(path)[1] == [["a\r\nb"]]


def test_formulas_are_their_values(tmp_path):
    path = write(tmp_path / "a.xlsx", a=[*ROWS, ("=A2", "=B2")])
    with refused(
        r"^\S+a\.xlsx, cell A4: a formula without a value; open the file in a spreadsheet"
    ):
        Table.read(path)
    change(path, b'"A4"><f>A2</f><v />', b'"A4" t="str"><f>A2</f><v>good</v>')
    with refused(r"cell B4: a formula without a value"):
        Table.read(path)
    change(path, b'"B4"><f>B2</f><v />', b'"B4" t="str"><f>B2</f><v></v>')
    assert rows_of(path)[1][-1] == ["good", None]


def test_cells_with_errors_are_empty_and_counted(tmp_path, capsys):
    path = write(tmp_path / "a.xlsx", a=[*ROWS, ("fine", "#N/A"), ("#NAME?", "no")])
    assert rows_of(path)[1][2:] == [["fine", None], [None, "no"]]
    assert capsys.readouterr().err == (
        f"warning: {path}: 2 cells hold errors and count as empty, the first one #N/A in B4\n"
    )


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (datetime.date(2024, 1, 1), "datetime"),
        (datetime.time(12, 30), "time"),
        (datetime.timedelta(hours=30), "timedelta"),
    ],
)
@pytest.mark.parametrize("column", [0, 1])
def test_dates_are_no_texts_and_no_labels(tmp_path, column, value, type_name):
    row = list(ROWS[1])
    row[column] = value
    path = write(tmp_path / "a.xlsx", a=[*ROWS, row])
    with refused(rf"^{path}, row 4: .*{type_name}"):
        Classification().read(path, "train")


def test_dates_that_are_not_read_do_not_matter(tmp_path):
    day = datetime.date(2024, 1, 1)
    path = write(tmp_path / "a.xlsx", a=[(*ROWS[0], "day"), *((*row, day) for row in ROWS[1:])])
    assert [example.text_a for example in Classification().read(path, "train")] == ["good", "bad"]


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ({"a": [], "b": [(None, "")]}, "holds no rows$"),
        ({"a": ROWS[:1]}, "holds no rows after the header row$"),
        ({"a": [*ROWS, ROWS[0]]}, ", row 4: repeats the header row; expected it once"),
        ({"a": [("text", "text"), ROWS[1]]}, "has the column 'text' twice; expected it once"),
        (
            {"reviews": ROWS, "empty": [], "a b": ROWS, "lists": [("yes",)]},
            r"the sheets 'reviews', 'a b', 'lists' \(hidden\) have rows; expected one sheet with rows$",
        ),
    ],
)
def test_mistakes_in_workbooks_are_named(tmp_path, sheets, message):
    path = write(tmp_path / "a.xlsx", hidden=["lists"], **sheets)
    with refused(rf"^{path}.*{message}"):
        Classification().read(path, "train")


def test_sheets_of_a_format_that_is_not_read_are_no_empty_workbook(tmp_path):
    path = write(tmp_path / "a.xlsx", a=ROWS)
    relations = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    strict = b"http://purl.oclc.org/ooxml/officeDocument/relationships"
    for member in ("xl/workbook.xml", "xl/_rels/workbook.xml.rels"):
        change(path, relations, strict, member)
    with refused("has no sheets that openpyxl can read; save it as .xlsx, not as Strict Open XML"):
        Table.read(path)


def zipped(**contents):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"text,label\n",
            "no workbook; expected one that Excel saved as .xlsx, without a password",
        ),
        (b"\xd0\xcf\x11\xe0\xa1", "begins like a document of an old office program; expected one"),
        (zipped(rows="text,label\ngood,yes\n"), "cannot be read: "),
        (b"PK\x03\x04", "cannot be read: "),
    ],
)
def test_other_files_named_like_workbooks_are_refused(tmp_path, content, message):
    path = tmp_path / "a.xlsx"
    path.write_bytes(content)
    with refused(rf"^{path}: {message}"):
        Table.read(path)


@pytest.mark.parametrize("part", ["sheet", "workbook"])
def test_damaged_workbooks_are_refused(tmp_path, part):
    path = write(tmp_path / "a.xlsx", a=ROWS)
    member = "xl/worksheets/sheet1.xml" if part == "sheet" else "xl/workbook.xml"
    change(path, b"</sheet", b"</", member)
    with refused(rf"^{path}: cannot be read: "):
        Table.read(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt", "pipe"])
def test_only_the_suffix_makes_a_workbook(tmp_path, name):
    path = write(tmp_path / name, a=ROWS)
    assert is_table(path) == (name not in ("a.txt", "pipe"))
    with refused(
        rf"^{path}, line 1: begins like a zip archive or a document of an office program; expected"
        " UTF-8 text: unpack it, and name its files"
    ):
        Table.read(path)


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.XLSX", a=ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with refused(
        rf"^{path}: needs openpyxl, which cannot be imported: pip install 'albert-tf\[xlsx\]'$"
    ):
        Table.read(path)
