"""Reads the labels of rows that may have any number of them, from whatever tables have them in.

They are lists of names, names with a separator between two, vectors of 0 and 1, or columns of these.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from albert_tf.data.fine_tuning.cells import LABEL_SEPARATOR, truth_of
from albert_tf.data.fine_tuning.column_names import LABEL_PREFIX, split_names
from albert_tf.data.fine_tuning.columns import (
    find_label,
    flag_columns,
    has_label,
    hold_flags,
    usual_label_columns,
    visible,
    without_label_names,
)
from albert_tf.data.fine_tuning.examples import quote_names
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError


def find_label_names(
    table: Table, known: Sequence[str] = (), optional: bool = False
) -> tuple[str, ...]:
    """Returns the names of the labels if a row may have any number of them; () if it has one label.

    They are the columns that the user names, those of the columns `label_<name>`, columns with the names
    of `known` labels, columns of 0 and 1 that can be nothing else, or places in vectors of 0 and 1.
    `optional` is whether the table may lack labels, so that other columns of 0 and 1 are none.
    """
    if table.names.label_columns is not None:
        prefix, names = "", _named_columns(table)
    elif has_label(table):
        vectors = _read_vectors(table)
        if vectors is None:
            return ()
        return tuple(str(place) for place in range(len(vectors[0])))
    else:
        prefix = LABEL_PREFIX if usual_label_columns(table) else ""
        names = tuple(column[len(prefix) :] for column in _usual_flags(table, known, optional))
    for name in names:
        if not name or LABEL_SEPARATOR in name or names.count(name) > 1:
            raise InputError(
                f"{table.name}: has the column '{prefix}{name}'; expected names of labels that differ, "
                f"without {LABEL_SEPARATOR}"
            )
    return names


def _usual_flags(table: Table, known: Sequence[str], optional: bool) -> list[str]:
    """Returns the columns of labels that no flag names; see `find_label_names`."""
    if usual := usual_label_columns(table):
        return usual
    if not known:
        return flag_columns(table)
    if optional:
        return [*known] if {*hold_flags(table, known)} == {*known} else []
    return [*known] if {*known} <= {*table.columns} else flag_columns(table)


def label_columns(table: Table) -> list[str]:
    """Returns the column of labels, or all columns of labels; none if a table has none."""
    if table.names.label_columns is not None:
        return [*_named_columns(table)]
    label = find_label(table, optional=True)
    return _usual_flags(table, known=(), optional=False) if label is None else [label]


def _named_columns(table: Table) -> tuple[str, ...]:
    """Returns the columns of `--label_columns`."""
    given = table.names.label_columns
    names = tuple(split_names(given, table.columns))
    flag = f"--label_columns={given}"
    for other in ("label_column", "label_separator"):
        if getattr(table.names, other) is not None:
            raise InputError(f"{flag}: received --{other}, too; expected one of them")
    if missing := [name for name in names if name not in table.columns]:
        raise InputError(
            f"{flag}: {table.name} has no column {quote_names(missing)}, but "
            f"{quote_names(visible(table))}"
        )
    if len(names) < 2:
        raise InputError(
            f"{flag}: received {quote_names(names)}; expected two columns or more; "
            "--label_column names a single one"
        )
    return names


def join_labels(table: Table, names: Sequence[str], optional: bool) -> Table:
    """Returns a table with lists of names in place of vectors or columns of 0 and 1, or joined names.

    A table that has none of them is returned as it is. `names` are those of the training set, if known;
    `optional` is whether the columns that the user names may be missing.
    """
    given = table.names.label_columns
    named = {*split_names(given, table.columns)}
    if optional and not named <= {*table.columns}:
        return without_label_names(table)
    if table.names.label_separator is not None and has_label(table):
        return _split_labels(table, is_new=not names)
    found = find_label_names(table, names, optional)
    if not found:
        return table
    names = names or found
    vectors = None
    columns: Sequence[str | None] = found
    if given is None and has_label(table):
        vectors, columns = _read_vectors(table), [find_label(table, optional=False)]
    elif given is None:
        columns = _usual_flags(table, names, optional)
    if vectors is None and set(found) != set(names):
        raise InputError(
            f"{table.name}: received columns of the labels {', '.join(found)}; expected "
            f"{', '.join(names)}, as in the training file"
        )
    if vectors and len(names) != len(found):
        raise InputError(
            f"{table.name}: received {len(found)} labels in each row; expected {len(names)}, as in the "
            "training file"
        )
    if vectors is None:
        column_of = dict(zip(found, columns, strict=True))
        places = [table.columns.index(column_of[name]) for name in names]
        vectors = [
            [_flag(table, number, fields, place) for place in places]
            for number, fields in zip(table.numbers, table.rows, strict=True)
        ]
    joined = [
        [*fields, [name for name, is_set in zip(names, vector, strict=True) if is_set]]
        for fields, vector in zip(table.rows, vectors, strict=True)
    ]
    hidden = ["" if column in columns else column for column in table.columns]
    name = ", ".join(filter(None, columns))
    joined_table = dataclasses.replace(table, columns=(*hidden, name), rows=joined)
    return without_label_names(joined_table, name)


def _split_labels(table: Table, is_new: bool) -> Table:
    """Returns a table with lists in place of texts with `--label_separator` between two names.

    `is_new` is whether the labels are not known yet, so that the separator has to be somewhere.
    """
    separator = table.names.label_separator
    if not separator:
        raise InputError("--label_separator: expected one character or more; received none")
    label = find_label(table, optional=False)
    place = table.columns.index(label)
    rows = [list(fields) for fields in table.rows]
    for fields in rows:
        if isinstance(fields[place], str):
            fields[place] = fields[place].split(separator)
    if is_new and all(not isinstance(row[place], list) or len(row[place]) == 1 for row in rows):
        raise InputError(
            f"--label_separator={separator}: is in no row of '{label}' in {table.name}; expected what "
            "separates the labels of a row"
        )
    return without_label_names(dataclasses.replace(table, rows=rows), table.names.label_column)


def _flag(table: Table, number: int, fields: Sequence[Any], place: int) -> int:
    flag = truth_of(fields[place])
    if flag is None:
        raise InputError(
            f"{table.place(number)}: {table.columns[place]} is '{fields[place]}'; expected 0 or 1"
        )
    return flag


def _read_vectors(table: Table) -> list[list[int]] | None:
    """Returns the labels of all rows if they are vectors of 0 and 1, of one length."""
    column = table.columns.index(find_label(table, optional=False))
    vectors = []
    for row in table.rows:
        if (vector := _read_vector(row[column])) is None:
            return None
        vectors.append(vector)
    lengths = {len(vector) for vector in vectors}
    return vectors if len(lengths) == 1 and lengths.pop() > 1 else None


def _read_vector(cell: Any) -> list[int] | None:
    """Returns a vector of 0 and 1; None if a cell is anything else."""
    if not isinstance(cell, list):
        return None
    flags = [flag for value in cell if (flag := truth_of(value)) is not None]
    return flags if len(flags) == len(cell) else None
