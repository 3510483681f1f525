"""What a layout is, and what readers of layouts have in common.

A reader makes a table of texts and labels with usual names. Columns that it does not read stay: they may
say how a row counts.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from albert_tf.data.fine_tuning.cells import is_missing
from albert_tf.data.fine_tuning.column_names import LABEL_PREFIX, LABELS, SPANS
from albert_tf.data.fine_tuning.written_values import read_written
from albert_tf.errors import InputError

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.tables import Table


class Layout(NamedTuple):
    """A layout of rows.

    Attributes:
        name: what messages and the documentation call it.
        is_of: whether a table has it. No table has it that could be read without.
        read: makes a table with usual names of columns; raises `InputError` for a row of another layout.
        is_container: whether it says where the rows are, not what they mean. Rows whose columns the user
            names have no other layout.
    """

    name: str
    is_of: Callable[["Table"], bool]
    read: Callable[["Table"], "Table"]
    is_container: bool = False


def cells(table: "Table", column: str) -> list[Any]:
    """Returns the cells of a column, None for none; lists and objects also where they are text."""
    return list(_read_cells(table, column))


def first_cell(table: "Table", column: str) -> Any:
    """Returns the first cell of a column that is not empty; None if all are."""
    return next((cell for cell in _read_cells(table, column) if cell is not None), None)


def _read_cells(table: "Table", column: str) -> Iterator[Any]:
    position = table.columns.index(column)
    for row in table.rows:
        value = read_written(row[position])
        yield None if value == "" or is_missing(value) else value


def replace_columns(
    table: "Table", removed: Collection[str], added: Mapping[str, Sequence[Any]]
) -> "Table":
    """Returns a table with other columns in the place of some."""
    kept = [
        position
        for position, column in enumerate(table.columns)
        if column not in removed and column not in added
    ]
    rows = [
        [*(row[position] for position in kept), *new]
        for row, new in zip(table.rows, zip(*added.values(), strict=True), strict=True)
    ]
    columns = (*(table.columns[position] for position in kept), *added)
    return dataclasses.replace(table, columns=columns, rows=rows)


def named_columns(table: "Table") -> set[str]:
    """Returns the columns of texts and labels that the user names."""
    return table.names.among(table.columns)


def has_labels(table: "Table", but: str = "") -> bool:
    """Returns whether a table has a column, but one, with a usual name of labels, spans or tags."""
    names = [column.lower() for column in table.columns if column != but]
    return any(name in (*LABELS, *SPANS) or name.startswith(LABEL_PREFIX) for name in names)


def refusal(table: "Table", row: int, name: str, reason: str) -> InputError:
    """Returns an error for a row, by its place in the table, that is not of a layout."""
    return InputError(f"{table.place(table.numbers[row])}: not {name}: {reason}")
