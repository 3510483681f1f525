"""What Prodigy's `db-out` writes. Its answers, such as `reject`, are read as in any table."""

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

_CHOICES = "Prodigy's choices"
_ANSWERS = {"accept", "reject", "ignore", None}


def _has_choices(table: "Table") -> bool:
    if not {"options", "accept"} <= {*table.columns} or has_labels(table):
        return False
    return all(isinstance(first_cell(table, name), list) for name in ("options", "accept"))


def _read_choices(table: "Table") -> "Table":
    """Makes the chosen options the label, a list; None where nothing was chosen of several classes."""
    count = len(table.rows)
    configs = cells(table, "config") if "config" in table.columns else [None] * count
    labels: list[Any] = []
    rows = zip(cells(table, "options"), cells(table, "accept"), configs, strict=True)
    for row, (options, chosen, config) in enumerate(rows):
        is_single = isinstance(config, Mapping) and config.get("choice_style") == "single"
        chosen = chosen or []
        if not isinstance(options, list) or not isinstance(chosen, list):
            raise refusal(table, row, _CHOICES, "expected lists as 'options' and 'accept'")
        known = [option.get("id") for option in options if isinstance(option, Mapping)]
        for name in chosen:
            if name not in known:
                raise refusal(
                    table, row, _CHOICES, f"accepts {name!r}; expected ids of the options {known}"
                )
        labels.append(None if is_single and not chosen else chosen)
    return replace_columns(table, ("options", "accept"), {"label": labels})


def _lacks_spans(table: "Table") -> bool:
    if not {"text", "spans", "answer"} <= {*table.columns}:
        return False
    spans = cells(table, "spans")
    is_partial = None in spans and any(isinstance(cell, list) for cell in spans)
    return is_partial and all(cell in _ANSWERS for cell in cells(table, "answer"))


def _fill_spans(table: "Table") -> "Table":
    """Gives the rows without `spans` none."""
    spans = cells(table, "spans")
    return replace_columns(table, (), {"spans": [[] if cell is None else cell for cell in spans]})


PRODIGY = (
    Layout(_CHOICES, _has_choices, _read_choices),
    Layout("Prodigy's spans", _lacks_spans, _fill_spans),
)
