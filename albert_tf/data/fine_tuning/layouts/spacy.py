"""What spaCy's examples are made of: texts with `entities` and `cats`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from albert_tf.data.fine_tuning.layouts.layout import (
    Layout,
    cells,
    first_cell,
    has_labels,
    refusal,
    replace_columns,
)

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.tables import Table

_PAIRS = "spaCy's pairs of a text and annotations"
_ANNOTATIONS = "spaCy's annotations"
_COLUMNS = ("entities", "cats")


def _are_pairs(table: "Table") -> bool:
    first = [] if table.columns else [*table.rows[0]]
    return len(first) == 2 and isinstance(first[0], str) and isinstance(first[1], Mapping)


def _read_pairs(table: "Table") -> "Table":
    records = []
    for row, pair in enumerate(table.rows):
        if not (len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], Mapping)):
            raise refusal(table, row, _PAIRS, f"received {[*pair]!r:.80}")
        if not {*pair[1]} & {*_COLUMNS}:
            raise refusal(table, row, _PAIRS, "expected 'entities' or 'cats' in the annotations")
        records.append({**pair[1], "text": pair[0]})
    return table.with_records(records)


def _has_annotations(table: "Table") -> bool:
    found = [name for name in _COLUMNS if name in table.columns]
    if "text" not in table.columns or not found or has_labels(table):
        return False
    return any(isinstance(first_cell(table, name), list | dict) for name in found)


def _read_annotations(table: "Table") -> "Table":
    """Makes `entities` spans, and the names in `cats` with the value 1 the label, a list."""
    added: dict[str, list[Any]] = {}
    if "entities" in table.columns:
        added["spans"] = cells(table, "entities")
        for row, entities in enumerate(added["spans"]):
            if not isinstance(entities, list | None):
                raise refusal(table, row, _ANNOTATIONS, f"'entities' is {entities!r:.80}")
    if "cats" in table.columns:
        added["label"] = []
        for row, values in enumerate(cells(table, "cats")):
            if values is not None and not (
                isinstance(values, Mapping) and {*values.values()} <= {0, 1, None}
            ):
                reason = f"'cats' is {values!r:.80}; expected an object of 0 and 1"
                raise refusal(table, row, _ANNOTATIONS, reason)
            chosen = values and [name for name, value in values.items() if value]
            added["label"].append(chosen)
    return replace_columns(table, _COLUMNS, added)


SPACY = (
    Layout(_PAIRS, _are_pairs, _read_pairs),
    Layout(_ANNOTATIONS, _has_annotations, _read_annotations),
)
