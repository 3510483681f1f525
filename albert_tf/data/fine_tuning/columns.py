"""Finds the columns of texts and labels in the user's own tables, by their usual names."""

import dataclasses
import re
import string
import sys
from collections.abc import Collection, Sequence
from typing import Any

from albert_tf.data.fine_tuning.cells import is_missing, truth_of
from albert_tf.data.fine_tuning.column_meanings import find_meaning
from albert_tf.data.fine_tuning.column_names import (
    CHOICE_PREFIX,
    LABEL_PREFIX,
    LABELS,
    NEGATIVES,
    SPANS,
    TEXTS,
    split_names,
    usual_columns,
)
from albert_tf.data.fine_tuning.examples import Columns, label_name, quote_names
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError

_PAIRS = (
    ("text_a", "text_b"),
    ("text", "text_pair"),
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
    ("question", "passage"),
    ("question", "context"),
    ("query", "passage"),
    ("query", "document"),
    ("query", "answer"),
    ("query", "positive"),
    ("anchor", "positive"),
)
_QUESTIONS = (
    ("text_a", "text_b"),
    ("article", "question"),
    ("passage", "question"),
    ("context", "question"),
)
_LISTS = (*SPANS, "tokens", "words", "answers")
# Names in lower case of columns that number the rows, which pandas names `Unnamed: 0`.
_IDS = re.compile(r"(.*[\W_])?(id|idx|guid|uuid)|index|unnamed: \d+")


def find_columns(
    table: Table, may_lack_label: bool = False, choices: Sequence[str] = ()
) -> Columns:
    """Returns the columns of texts and labels, and those of the answers to choose from.

    The table's `names` override what is found; upper and lower case are alike.
    """
    refuse_sets(table)
    texts = _find_texts(table, _QUESTIONS if choices else _PAIRS)
    columns = {column.lower(): column for column in table.columns}
    label = find_label(table, may_lack_label)
    return Columns(*texts, label, choices=tuple(columns[name] for name in choices))


def refuse_sets(table: Table) -> None:
    """Raises an `InputError` if the user names what only sets of labels have."""
    for flag in ("label_columns", "label_separator"):
        if (value := getattr(table.names, flag)) is not None:
            raise InputError(
                f"--{flag}={value}: {table.name} is read with one label in a row, or none; expected "
                "--task_name=multi_label, or a model of it"
            )


def has_label(table: Table) -> bool:
    """Returns whether a table has a column of labels."""
    return find_label(table, optional=True) is not None


def hide_labels(table: Table) -> Table:
    """Returns a table in whose columns no labels, spans or tags are found, for predictions."""
    names = table.names
    texts = (names.text_column, names.text_pair_column)
    named = {names.label_column, *split_names(names.label_columns, table.columns)}
    named |= {*flag_columns(table)}

    def is_label(column: str) -> bool:
        return column not in texts and (_is_usual_label(column) or column in named)

    hidden = tuple(column for column in table.columns if column and is_label(column))
    columns = tuple("" if column in hidden else column for column in table.columns)
    hidden += table.hidden
    return without_label_names(dataclasses.replace(table, columns=columns, hidden=hidden))


def without_label_names(table: Table, label_column: str | None = None) -> Table:
    """Returns a table for which the user names this column of labels, or none."""
    names = dataclasses.replace(
        table.names, label_column=label_column, label_columns=None, label_separator=None
    )
    return dataclasses.replace(table, names=names)


def find_negative(table: Table, columns: Columns) -> str | None:
    """Returns the column of texts that do not belong to the first ones; None if no row has one.

    `columns` are those that are read as something else.
    """
    for column in usual_columns(table.columns, NEGATIVES):
        position = table.columns.index(column)
        is_empty = all(is_missing(row[position]) for row in table.rows)
        if column not in (columns.text_a, columns.text_b, columns.label) and not is_empty:
            return column
    return None


def choice_columns(table: Table) -> list[str]:
    """Returns the columns `choice_a`, `choice_b`, ..., sorted."""
    found = sorted(
        {name.lower() for name in table.columns if name.lower().startswith(CHOICE_PREFIX)}
    )
    expected = choice_names(max(2, len(found)))
    if found and found != expected:
        raise InputError(
            f"{table.name}: has the columns {', '.join(found)}; expected choice_a, choice_b and so on, "
            "without a gap"
        )
    return found


def choice_names(count: int) -> list[str]:
    """Returns the names of the columns of a number of choices."""
    return [CHOICE_PREFIX + letter for letter in string.ascii_lowercase[:count]]


def read_letters(table: Table) -> Table:
    """Returns a table with letters of choices in place of numbers from 0 or of small letters.

    A table that has neither is returned as it is.
    """
    label = find_label(table, True)
    if label is None:
        return table
    count, position = len(choice_columns(table)), table.columns.index(label)
    letters = [_letter(row[position], count) for row in table.rows]
    if all(letter == row[position] for letter, row in zip(letters, table.rows, strict=True)):
        return table
    print(f"{table.name}: '{label}' is read as letters: 0 or a is A, and so on", file=sys.stderr)
    rows = [
        [*row[:position], letter, *row[position + 1 :]]
        for letter, row in zip(letters, table.rows, strict=True)
    ]
    return dataclasses.replace(table, rows=rows)


def _letter(label: Any, count: int) -> Any:
    """Returns the letter of a choice by its number from 0 or its small letter; others as they are."""
    text, letters = label_name(str(label)), string.ascii_uppercase[:count]
    if text.isdecimal():
        return letters[int(text)] if int(text) < count else label
    return text.upper() if len(text) == 1 and text.upper() in letters else label


def list_columns(table: Table) -> list[int]:
    """Returns the positions of the columns whose cells may be lists."""
    labels = {table.names.label_column, *usual_label_columns(table)}
    return [
        position
        for position, column in enumerate(table.columns)
        if column in labels or column.lower() in (*LABELS, *_LISTS)
    ]


def usual_label_columns(table: Table) -> list[str]:
    """Returns the columns `label_<name>`; a single one is a column of classes, e.g. `label_id`."""
    return [column for column in table.columns if column.lower().startswith(LABEL_PREFIX)]


def flag_columns(table: Table) -> list[str]:
    """Returns the columns of 0 and 1 if they can only be labels, of which a row may have any number.

    So they are if all else is one text and ids, there are two of them or more, and no name says how a row
    with one text counts. Otherwise none are returned.
    """
    names = table.names
    named = (names.text_column, names.text_pair_column)
    texts = [column for column in named if column] or usual_columns(table.columns, TEXTS)
    others = [
        column
        for column in visible(table)
        if column not in texts and not _IDS.fullmatch(column.lower())
    ]
    is_clear = len(texts) == 1 and len(others) > 1
    meanings = filter(None, map(find_meaning, others))
    counts_rows = any(not meaning.of_pairs for meaning in meanings)
    if not is_clear or counts_rows or any(map(_is_usual_label, others)):
        return []
    return others if hold_flags(table, others) == others else []


def hold_flags(table: Table, columns: Collection[str]) -> list[str]:
    """Returns those of some columns that hold 0 and 1 only."""
    return [
        column
        for place, column in enumerate(table.columns)
        if column in columns and all(truth_of(row[place]) is not None for row in table.rows)
    ]


def _is_usual_label(column: str) -> bool:
    name = column.lower()
    return name in (*LABELS, *SPANS) or name.startswith(LABEL_PREFIX)


def _find_texts(table: Table, pairs: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    names = table.names
    if names.text_column:
        second = names.text_pair_column
        return _named(table, "text_column"), second and _named(table, "text_pair_column")
    if names.text_pair_column:
        raise InputError("--text_pair_column: expected --text_column, too")
    columns = _usual_columns(table)
    found = [pair for pair in pairs if set(pair) <= set(columns)]
    firsts = [name for name in TEXTS if name in columns]
    others = [name for name in firsts if not any(name in pair for pair in found)]
    if len(found) > 1 or len(others) > (0 if found else 1):
        candidates = [columns[name] for name in firsts]
        raise InputError(
            f"{table.name}: the columns {quote_names(candidates)} may all be the text; --text_column "
            "chooses, and --text_pair_column for pairs"
        )
    if found:
        return columns[found[0][0]], columns[found[0][1]]
    if firsts:
        return columns[firsts[0]], None
    raise InputError(
        f"{table.name}: no column of texts, but {quote_names(visible(table))}; expected "
        f"{quote_names(TEXTS)}, or another one and --text_column; a table without a header row needs "
        "--columns"
    )


def find_label(table: Table, optional: bool) -> str | None:
    """Returns the column of labels; None, if they are optional, without one."""
    if table.names.label_column:
        if optional and table.names.label_column not in table.columns:
            return None
        return _named(table, "label_column")
    columns = _usual_columns(table)
    found = [columns[name] for name in LABELS if name in columns]
    if not found and len(single := usual_label_columns(table)) == 1:
        return single[0]
    if len(found) > 1:
        raise InputError(
            f"{table.name}: the columns {quote_names(found)} may all be the label; --label_column chooses"
        )
    if not found and not optional:
        raise InputError(
            f"{table.name}: no column of labels, but {quote_names(visible(table))}; expected "
            f"{quote_names(LABELS)}, or another one and --label_column{_advise_columns(table)}"
        )
    return found[0] if found else None


def _advise_columns(table: Table) -> str:
    """Returns how several columns of 0 and 1, or one of spans, are read; nothing without them."""
    flags, spans = hold_flags(table, visible(table)), usual_columns(visible(table), SPANS)
    if len(flags) > 1:
        return f"; --label_columns={','.join(flags)} reads columns of 0 and 1 as sets of labels"
    return f"; --task_name=token_classification reads {quote_names(spans)}" if spans else ""


def visible(table: Table) -> list[str]:
    """Returns the columns that are not hidden."""
    return [column for column in table.columns if column]


def _named(table: Table, flag: str) -> str:
    name = getattr(table.names, flag)
    if name not in table.columns:
        raise InputError(
            f"--{flag}={name}: {table.name} has no such column, but {quote_names(visible(table))}"
        )
    return name


def _usual_columns(table: Table) -> dict[str, str]:
    """Returns the columns by their names in lower case."""
    columns = {}
    for column in table.columns:
        name = column.lower()
        if name in columns and name in (*TEXTS, *LABELS):
            raise InputError(f"{table.name}: has the column '{name}' twice; expected it once")
        columns[name] = column
    return columns
