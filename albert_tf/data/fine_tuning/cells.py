"""The form of the values in the cells of tables, read and written."""

import json
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError

# Between the labels of a row.
LABEL_SEPARATOR = "|"


def is_missing(value: Any) -> bool:
    """Returns whether a value stands for none: `None`, NaN, or pandas's `NA` or `NaT`."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas's NA has no truth value, and neither has an array
        return not hasattr(value, "__len__")


# A truth value, as sources have it -> the value.
_FLAGS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


def truth_of(value: Any) -> int | None:
    """Returns 0 or 1 for a truth value, as sources have it; None for anything else."""
    return _FLAGS.get(str(value).strip().lower())


def as_text(value: Any, place: str) -> str:
    """Returns a text, or a number or truth value as a CSV file has it.

    Raises:
        InputError: it is anything else, e.g. a date, which programs write in different forms.
    """
    if not isinstance(value, str | numbers.Number):
        raise InputError(f"{place}: received {type(value).__name__} in place of a text")
    return str(value)


def decode(value: Any) -> Any:
    """Returns a field, or all, with texts and lists in place of bytes, arrays and so on.

    TensorFlow Datasets has both, older writers of Parquet files wrote texts as bytes, and pandas reads
    lists from there as arrays.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, Mapping):
        return {name: decode(part) for name, part in value.items()}
    if hasattr(value, "to_list"):  # ragged
        return decode(value.to_list())
    if isinstance(value, np.ndarray):
        return decode(value.tolist())
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, set):
        value = sorted(value, key=str)  # in any process the same order
    return [decode(part) for part in value] if isinstance(value, list | tuple) else value


def as_cell(value: Any, float_format: str = ".9g") -> str:
    """Returns a value for a cell of a TSV file: sets of labels as in data, lists as JSON.

    A text has no tabs and ends of lines, which would be taken for those of the table. One that begins
    with a quote is quoted as in RFC 4180, as readers of tables expect. Nine digits give the same float32
    back.
    """
    if isinstance(value, float):
        return f"{value:{float_format}}"
    if isinstance(value, tuple):
        value = LABEL_SEPARATOR.join(value)
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = re.sub(r"[\t\r\n]", " ", value)
    return '"' + text.replace('"', '""') + '"' if text.startswith('"') else text


def to_rows(columns: Mapping[str, Iterable[Any]]) -> Iterator[dict[str, Any]]:
    """Yields the rows of named columns."""
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def answer_rows(
    examples: Sequence[Any], columns: Mapping[str, Iterable[Any]]
) -> Iterator[dict[str, Any] | None]:
    """Yields the answer to each example, given those of each column; None for one without a text."""
    for example, row in zip(examples, to_rows(columns), strict=True):
        yield None if getattr(example, "is_blank", False) else row


def answers_to_tsv(examples: Sequence[Any], columns: Mapping[str, Iterable[Any]]) -> str:
    """Returns a table of what is known of each example, and its answer, which may be empty."""
    no_answer = dict.fromkeys(columns, "")
    answers = zip(examples, answer_rows(examples, columns), strict=True)
    return to_tsv({**example.known(), **(answer or no_answer)} for example, answer in answers)


def to_tsv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns a table with a header row. All rows have the columns of the first one."""
    rows = list(rows)
    return join_cells([rows[0], *(row.values() for row in rows)])


def join_cells(rows: Iterable[Iterable[Any]]) -> str:
    """Returns a table of rows of values."""
    return "".join("\t".join(map(as_cell, row)) + "\n" for row in rows)
