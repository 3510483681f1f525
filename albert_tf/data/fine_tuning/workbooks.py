"""Reads the rows of Excel's workbooks.

`tables` checks that openpyxl is installed.
"""

import contextlib
import io
import itertools
import re
import warnings
from collections.abc import Iterator
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError, warn
from albert_tf.file_kinds import describe

_ZIP = b"PK"
# A control character in a text, as Excel writes it, such as `_x000D_`.
_ESCAPED = re.compile(r"_x00([01][0-9A-Fa-f])_")


def read_workbook(path: str, content: bytes) -> list[tuple[int, list[Any]]]:
    """Returns the rows of the only sheet with some, with their numbers there, from the first filled one.

    All have the same length. A cell without a value is `None`, and so is one with an error.

    Raises:
        InputError: it is no workbook, several sheets have rows, or a formula has no value.
    """
    if not content.startswith(_ZIP):
        what = describe(content)
        raise InputError(
            f"{path}: {f'begins like {what}' if what else 'no workbook'}; expected one that Excel "
            "saved as .xlsx, without a password"
        )
    with _open(path, content) as book:
        sheets = [(sheet, [*sheet.iter_rows()]) for sheet in _sheets(book)]
    if not sheets:
        raise InputError(
            f"{path}: has no sheets that openpyxl can read; save it as .xlsx, not as Strict Open XML"
        )
    filled = [
        (sheet, rows)
        for sheet, rows in sheets
        if any(_is_filled(cell) for cell in itertools.chain.from_iterable(rows))
    ]
    if not filled:
        raise InputError(f"{path}: holds no rows")
    if len(filled) > 1:
        names = ", ".join(
            f"'{sheet.title}'" + ("" if sheet.sheet_state == "visible" else " (hidden)")
            for sheet, _ in filled
        )
        raise InputError(f"{path}: the sheets {names} have rows; expected one sheet with rows")
    ((sheet, rows),) = filled
    _refuse_formulas_without_values(path, content, sheet.title, rows)
    _warn_of_errors(path, rows)
    return _number(rows)


@contextlib.contextmanager
def _open(path: str, content: bytes, data_only: bool = True) -> Iterator[Any]:
    """Yields a workbook, with the values of formulas or the formulas; its errors name the file."""
    import openpyxl

    try:
        with warnings.catch_warnings():
            # Of what openpyxl leaves out, such as styles and the rules for entries.
            warnings.filterwarnings("ignore", module="openpyxl")
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=data_only)
            with contextlib.closing(book):
                yield book
    except Exception as error:  # of zipfile, the XML parser, or openpyxl's many types
        raise InputError(f"{path}: cannot be read: {files.reason(error)}") from error


def _sheets(book: Any) -> list[Any]:
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # which some programs write wrong, so that rows would be left out
    return book.worksheets


def _is_filled(cell: Any) -> bool:
    return cell.value is not None and cell.value != ""


def _refuse_formulas_without_values(
    path: str, content: bytes, title: str, rows: list[tuple[Any, ...]]
) -> None:
    """Raises `InputError` for a formula that no program has computed."""
    # A formula with the empty text as its value has the type of a text.
    empty = {
        (row, column)
        for row, cells in enumerate(rows)
        for column, cell in enumerate(cells)
        if cell.value is None and cell.data_type == "n" and hasattr(cell, "coordinate")
    }
    if not empty:
        return
    with _open(path, content, data_only=False) as book:
        (sheet,) = (sheet for sheet in _sheets(book) if sheet.title == title)
        found = [
            cell.coordinate
            for row, cells in enumerate(sheet.iter_rows())
            for column, cell in enumerate(cells)
            if cell.data_type == "f" and (row, column) in empty
        ]
    if found:
        raise InputError(
            f"{path}, cell {found[0]}: a formula without a value; open the file in a spreadsheet "
            "program, which computes it, and save it"
        )


def _warn_of_errors(path: str, rows: list[tuple[Any, ...]]) -> None:
    wrong = [cell for cell in itertools.chain.from_iterable(rows) if cell.data_type == "e"]
    if wrong:
        warn(
            f"{path}: {len(wrong)} cells hold errors and count as empty, the first one "
            f"{wrong[0].value} in {wrong[0].coordinate}"
        )


def _value(cell: Any) -> Any:
    if cell.data_type == "e":
        return None
    if isinstance(cell.value, str):
        return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), cell.value)
    return cell.value


def _number(rows: list[tuple[Any, ...]]) -> list[tuple[int, list[Any]]]:
    """Returns the values of rows from the first filled one, without columns that have none."""
    filled = [[column for column, cell in enumerate(row) if _is_filled(cell)] for row in rows]
    columns = sorted({*itertools.chain.from_iterable(filled)})
    numbered = itertools.dropwhile(lambda row: not filled[row[0] - 1], enumerate(rows, 1))
    return [
        (number, [_value(row[column]) if column < len(row) else None for column in columns])
        for number, row in numbered
    ]
