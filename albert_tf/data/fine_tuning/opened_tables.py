"""Opens tables: the same rows are the same table, whatever holds them, and each column is accounted for.

Columns are those that the user or the training named, or others with usual names. Columns to pass over
are hidden, rows that do not count are left out, and lists that cells have as text are read.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from albert_tf.data.fine_tuning.cells import as_text, is_missing
from albert_tf.data.fine_tuning.column_meanings import (
    Pairs,
    account_for_columns,
    leave_out_rows,
)
from albert_tf.data.fine_tuning.column_names import ColumnNames, NamedColumns, split_names
from albert_tf.data.fine_tuning.columns import find_columns, hide_labels, list_columns
from albert_tf.data.fine_tuning.examples import Columns, quote_names
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.fine_tuning.written_values import read_written
from albert_tf.errors import InputError, warn

# What Label Studio writes several names of one row in.
_CHOICES = "choices"
# A flag -> those that it replaces.
_REPLACED = {
    "label_column": ("label_columns",),
    "label_columns": ("label_column", "label_separator"),
    "label_separator": ("label_columns",),
}


def open_table(source: Any, split: str, names: ColumnNames | None = None) -> Table:
    """Reads a table as `Table.read` does, and makes the same of the same rows, whatever holds them.

    Columns to pass over are hidden, rows that do not count are left out unless they are to be answered,
    and lists and objects that cells have as text are read. A table that was opened stays as it is.

    Args:
        source: what `Table.read` takes.
        split: `train`, `dev` or `test`, which is also what messages call a source in memory.
        names: the columns that the user names.

    Raises:
        InputError: a column to pass over is not there, or no row counts.
    """
    table = _hide_ignored(Table.read(source, split, names), split)
    return _read_written_cells(table if split == "test" else leave_out_rows(table))


def read_texts(path: str, names: ColumnNames, known: NamedColumns = ()) -> list[str]:
    """Reads the texts of a table with one column of them; a row without one has the text "".

    `names` are the columns that the user names, and `known` those that a model was trained with.
    """
    table = Table.read(path, names=names)
    table, columns = open_unlabelled(recall_columns(table, "test", known))
    if columns.text_b is not None:
        raise InputError(
            f"{table.name}: has texts in '{columns.text_a}' and '{columns.text_b}'; --text_column chooses"
        )
    place = table.columns.index(columns.text_a)
    return [
        "" if is_missing(row[place]) else as_text(row[place], table.place(number))
        for number, row in zip(table.numbers, table.rows, strict=True)
    ]


def open_unlabelled(source: Any) -> tuple[Table, Columns]:
    """Opens a table for its texts alone: returns it without its labels, and the columns of texts."""
    table = hide_labels(open_table(source, "test"))
    columns = find_columns(table, may_lack_label=True)
    account_for_texts(table, "test", columns)
    return table, columns


def split_labelled(table: Table, columns: Sequence[str]) -> tuple[Table | None, Table | None]:
    """Returns the rows with a label and the rows without one, or None for either if it is empty.

    A row has one if a cell of these columns is not empty. An empty list is a set of labels without any.
    """
    places = [place for place, column in enumerate(table.columns) if column in columns]
    has_label = [not all(_is_empty(row[place]) for place in places) for row in table.rows]
    if all(has_label):
        return table, None
    if not any(has_label):
        return None, table
    parts = []
    for wanted in (True, False):
        kept = [wanted == has for has in has_label]
        rows = [*itertools.compress(table.rows, kept)]
        numbers = [*itertools.compress(table.numbers, kept)]
        parts.append(dataclasses.replace(table, rows=rows, numbers=numbers, is_rest=not wanted))
    return parts[0], parts[1]


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and not cell.strip())


def account_for_texts(
    table: Table, split: str, columns: Columns, pairs: Pairs | None = None
) -> None:
    """Says which columns are read; see `account_for_columns`."""
    second = "the question" if columns.choices else "the second text"
    read = {"the text": columns.text_a, second: columns.text_b, "the label": columns.label}
    read["the negative"] = columns.negative
    read |= {f"choice {name[-1].upper()}": name for name in columns.choices}
    account_for_columns(table, split, read, pairs)


def named_columns(names: ColumnNames, known: NamedColumns = ()) -> NamedColumns:
    """Returns the columns that are named, or else those that are `known`, as a folder keeps them."""
    given = {name: value for name, value in dataclasses.asdict(names).items() if value is not None}
    given.pop("columns", None)  # those of a file, of which others may have a header row
    return tuple(sorted((dict(known) | given).items()))


def recall_columns(table: Table, split: str, columns: NamedColumns) -> Table:
    """Returns a table with the names of the training for the columns that the user does not name.

    A warning says which of them the table lacks, so that others are read. A test set may lack labels. If
    they are columns of another tool's layout, the table is read without it, as in the training.
    """
    if table.unread and ColumnNames(**dict(columns)).among(table.unread.columns):
        table = table.unread
    known = {name: value for name, value in columns if getattr(table.names, name) is None}
    for given, replaced in _REPLACED.items():
        if getattr(table.names, given) is not None:
            known = {name: value for name, value in known.items() if name not in replaced}
    ignored = known.pop("ignore_columns", None)
    found = {name: known.pop(name) for name in ("label_separator",) if name in known}
    missing = {
        name: {*(split_names(value, table.columns) if name == "label_columns" else [value])}
        - {*table.columns}
        for name, value in known.items()
    }
    missing = {name: lacking for name, lacking in missing.items() if lacking}
    is_silent = ("label_column", "label_columns") if split == "test" else ()
    for name, lacking in missing.items():
        if name not in is_silent:
            warn(
                f"{table.name}: has no column {quote_names(sorted(lacking))}, the --{name} that the "
                "model was trained with"
            )
    found |= {name: value for name, value in known.items() if name not in missing}
    if "text_column" in missing:  # without it the second one has no meaning
        found.pop("text_pair_column", None)
    if ignored is not None and {*split_names(ignored, table.columns)} & {*table.columns}:
        found["ignore_columns"] = ignored
    return dataclasses.replace(table, names=dataclasses.replace(table.names, **found))


def _hide_ignored(table: Table, split: str) -> Table:
    given = table.names.ignore_columns
    if given is None:
        return table
    ignored = split_names(given, table.columns)
    if split == "train" and not {*ignored} <= {*table.columns}:
        raise InputError(
            f"--ignore_columns={given}: {table.name} has no such columns, but "
            f"{quote_names(table.columns)}"
        )
    columns = tuple("" if column in ignored else column for column in table.columns)
    names = dataclasses.replace(table.names, ignore_columns=None)
    return dataclasses.replace(table, columns=columns, names=names)


def _read_written_cells(table: Table) -> Table:
    positions = list_columns(table)
    rows = [list(row) for row in table.rows]
    for row in rows:
        for position in positions:
            cell = read_written(row[position])
            if isinstance(cell, dict) and [*cell] == [_CHOICES]:
                cell = cell[_CHOICES]
            row[position] = cell
    return dataclasses.replace(table, rows=rows)
