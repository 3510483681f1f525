"""Label Studio's exports: JSON, with tasks that have annotations, and JSON-MIN and CSV, a row for each.

A task has as many rows as annotations. What annotators chose is the label, a list, and what they marked
are the spans, if one control of the project's interface asks for it; several keep their names. Controls
that ask for anything else, such as a rating, are named as not read.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf.data.fine_tuning.column_names import TEXTS, usual_columns
from albert_tf.data.fine_tuning.layouts.layout import (
    Layout,
    cells,
    first_cell,
    has_labels,
    refusal,
    replace_columns,
)
from albert_tf.data.fine_tuning.written_values import read_written
from albert_tf.errors import InputError
from albert_tf.options import check_layout

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.tables import Table

_JSON = "Label Studio's JSON"
_ROWS = "Label Studio's JSON-MIN or CSV"
_CHOICES, _SPANS = "choices", "labels"
_ANNOTATION = {"result": [dict], "reviews?": [dict]}
_RESULT = {"from_name": str, "type": str, "value": dict}
# Of an annotation, what says how it counts.
_COUNTS = ("was_cancelled", "skipped", "ground_truth")
# Columns of JSON-MIN and CSV that are neither data nor a control.
_OWN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement")


def _annotations_name(table: "Table") -> str | None:
    """Returns the column of annotations; older versions have `completions`."""
    return next((name for name in ("annotations", "completions") if name in table.columns), None)


def _has_tasks(table: "Table") -> bool:
    name = _annotations_name(table)
    if name is None or "data" not in table.columns or usual_columns(table.columns, TEXTS):
        return False
    parts = first_cell(table, "data"), first_cell(table, name)
    return isinstance(parts[0], dict) and isinstance(parts[1], list)


def _read_tasks(table: "Table") -> "Table":
    name = _annotations_name(table)
    assert name is not None, "the layout is that of tables with annotations"
    rows = []  # number, columns of data and so on, and what each control asks for and received
    for number, task in zip(table.numbers, table.records(), strict=True):
        place = f"{table.place(number)}: not {_JSON}"
        check_layout(task, {"data": dict, name: [_ANNOTATION]}, place)
        common = {key: value for key, value in task.items() if not isinstance(value, list | dict)}
        for annotation in task[name] or [{"result": None}]:
            counts = {key: annotation[key] for key in _COUNTS if key in annotation}
            if reviews := annotation.get("reviews"):
                counts["is_rejected"] = _is_rejected(reviews)
            found = annotation["result"]
            answers = None if found is None else list(_read_results(found, place))
            rows.append((number, {**common, **counts, **task["data"]}, answers))
    answered = [answers for *_, answers in rows if answers is not None]
    controls = [answer[:2] for answers in answered for answer in answers]
    asked = {control: kind for control, kind in controls if kind}
    takes_several = {
        control for answers in answered for control, _, values in answers if len(values) > 1
    }
    columns = _name_controls(asked, table.names.label_column)
    records, numbers = [], []
    for number, record, answers in rows:
        for control, kind in asked.items():
            values = [value for name, _, part in answers or () if name == control for value in part]
            is_answer = answers is not None and (kind == _SPANS or control in takes_several)
            record = {**record, columns[control]: values if values or is_answer else None}
        records.append(record)
        numbers.append(number)
    others = dict.fromkeys(control for control, _ in controls if control not in asked)
    return dataclasses.replace(table.with_records(records, numbers), hidden=tuple(others))


def _is_rejected(reviews: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether the newest review rejects an annotation; Label Studio Enterprise has reviews."""
    newest = sorted(reviews, key=lambda review: str(review.get("created_at")))[-1]
    return newest.get("accepted") is False


def _read_results(results: Sequence[Any], place: str) -> Iterator[tuple[str, str, list[Any]]]:
    """Yields each control, what it asks for, and the values: names of choices, or one span.

    Controls that are not read ask for "" and have no values.
    """
    for number, result in enumerate(results):
        if result.get("type") == "relation":  # between two spans, which no control asks for
            yield "relation", "", []
            continue
        check_layout(result, _RESULT, place, place=f"result[{number}]")
        kind, value = result["type"], result["value"]
        if kind == "hypertextlabels":
            raise InputError(f"{place}: result[{number}] is a span in HTML; expected plain text")
        if kind == _SPANS:
            yield result["from_name"], kind, [value]
        elif kind == _CHOICES and "start" not in value:  # of a text, not of a span
            check_layout(value, {_CHOICES: [str]}, place, place=f"result[{number}].value")
            yield result["from_name"], kind, value[_CHOICES]
        else:
            yield result["from_name"], "", []


def _name_controls(asked: Mapping[str, str], label_column: str | None) -> dict[str, str]:
    """Returns the column of each control: a usual name, if it is the only one of its kind.

    A control that the user names keeps its name.
    """
    columns = {}
    for control, kind in asked.items():
        is_only = [*asked.values()].count(kind) == 1 and control != label_column
        usual = "spans" if kind == _SPANS else "label"
        columns[control] = usual if is_only else control
    return columns


def _find_spans(table: "Table") -> str | None:
    """Returns the only column of labels, whose cells are lists of spans as Label Studio writes them."""
    found = next((column for column in table.columns if _has_spans(table, column)), None)
    return None if found is None or has_labels(table, but=found) else found


def _has_spans(table: "Table", column: str) -> bool:
    position = table.columns.index(column)
    for row in table.rows:
        cell = read_written(row[position])
        if isinstance(cell, list) and cell:
            return isinstance(cell[0], dict) and {"start", "end", _SPANS} <= cell[0].keys()
        if not (cell in ("", None) or isinstance(cell, list)):
            return False
    return False


def _find_choices(table: "Table") -> str | None:
    """Returns the only column that is neither the text nor one of Label Studio's own."""
    columns = table.columns
    if not {"annotator", "lead_time"} <= {*columns} or has_labels(table) or _find_spans(table):
        return None
    rest = [name for name in columns if name not in (*_OWN, *usual_columns(columns, TEXTS))]
    if len(rest) > 1 and "id" in columns and columns.index("id") < columns.index("annotator"):
        # In JSON-MIN the data come before the id.
        between = columns[columns.index("id") + 1 : columns.index("annotator")]
        rest = [name for name in rest if name in between]
    return rest[0] if len(rest) == 1 else None


def _has_annotated_rows(table: "Table") -> bool:
    return (_find_spans(table) or _find_choices(table)) is not None


def _read_annotated_rows(table: "Table") -> "Table":
    if choices := _find_choices(table):
        return replace_columns(table, (choices,), {"label": cells(table, choices)})
    column = _find_spans(table)
    assert column is not None, "the layout is that of tables with choices or spans"
    spans = [[] if cell is None else cell for cell in cells(table, column)]
    for row, cell in enumerate(spans):
        if not isinstance(cell, list):
            raise refusal(table, row, _ROWS, f"'{column}' is {cell!r:.80}; expected a list")
    return replace_columns(table, (column,), {"spans": spans})


LABEL_STUDIO = (
    Layout(_JSON, _has_tasks, _read_tasks),
    Layout(_ROWS, _has_annotated_rows, _read_annotated_rows),
)
