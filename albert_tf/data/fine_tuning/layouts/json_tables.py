"""Tables in one object of JSON, as pandas and other libraries write them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from albert_tf.data.fine_tuning.column_names import LABELS, SPANS, TEXTS, usual_columns
from albert_tf.data.fine_tuning.layouts.layout import Layout, named_columns
from albert_tf.errors import InputError

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.tables import Table

# Columns with a value for each word.
_WORDS = ("tokens", "words", "ner_tags", "tags")
_SPLIT = "JSON of pandas, orient=split"
_BY_COLUMNS = "JSON by columns"


def _members(table: "Table") -> dict[str, Any]:
    """Returns the members of the only object of a file; nothing for other tables."""
    is_one = len(table.rows) == 1 and table.unit == "line"
    return table.records()[0] if is_one and table.columns else {}


def _is_split(table: "Table") -> bool:
    members = _members(table)
    is_named = {"columns", "data"} <= {*members} <= {"columns", "index", "data"}
    return is_named and isinstance(members["columns"], list) and isinstance(members["data"], list)


def _read_split(table: "Table") -> "Table":
    members = _members(table)
    columns, rows = members["columns"], members["data"]
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(columns):
            raise InputError(
                f"{table.name}: not {_SPLIT}: data[{number}] is {row!r:.80}; expected a list with a "
                f"value for each of {len(columns)} columns"
            )
    records = [dict(zip(map(str, columns), row, strict=True)) for row in rows]
    return table.with_records(records, range(len(rows)), unit="")


def _has_rows_in_data(table: "Table") -> bool:
    members = _members(table)
    rows = members.get("data")
    is_row = usual_columns(members, (*TEXTS, *_WORDS, *LABELS, *SPANS)) or named_columns(table)
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], Mapping) and not is_row


def _read_data(table: "Table") -> "Table":
    rows = _members(table)["data"]
    return table.with_records(rows, range(len(rows)), unit="")


def _is_by_columns(table: "Table") -> bool:
    columns = _members(table)
    types = {*map(type, columns.values())}
    if types != {list}:
        return types == {dict}
    # A list of words without white space is a row.
    names = {*usual_columns(columns, TEXTS), *named_columns(table)}
    texts = [text for name in names for text in columns[name] if isinstance(text, str)]
    return not usual_columns(columns, _WORDS) and any(len(text.split()) > 1 for text in texts)


def _read_columns(table: "Table") -> "Table":
    columns = {
        name: cells if isinstance(cells, Mapping) else dict(enumerate(cells))
        for name, cells in _members(table).items()
    }
    first, *others = columns
    for name in others:
        if columns[name].keys() != columns[first].keys():
            raise InputError(
                f"{table.name}: not {_BY_COLUMNS}: '{name}' has other rows than '{first}'; expected a "
                "value for each row"
            )
    records = [{name: columns[name][key] for name in columns} for key in columns[first]]
    return table.with_records(records, range(len(records)), unit="")


JSON_TABLES = (
    Layout(_SPLIT, _is_split, _read_split, is_container=True),
    Layout('JSON with rows in "data"', _has_rows_in_data, _read_data, is_container=True),
    Layout(_BY_COLUMNS, _is_by_columns, _read_columns, is_container=True),
)
