"""Finds the columns of texts and labels in the user's own tables, by their usual names."""

import dataclasses
import string
from collections.abc import Sequence
from typing import Any

from albert_tf.data.fine_tuning.cells import LABEL_SEPARATOR
from albert_tf.data.fine_tuning.examples import Columns, quote_names
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError

_TEXTS = (
    "text_a",
    "text",
    "sentence",
    "sentence1",
    "sentence_a",
    "premise",
    "question",
    "question1",
    "query",
    "anchor",
    "passage",
    "article",
    "context",
    "content",
    "document",
    "review",
    "tweet",
)
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
    ("anchor", "positive"),
)
_QUESTIONS = (
    ("text_a", "text_b"),
    ("article", "question"),
    ("passage", "question"),
    ("context", "question"),
)
_SPANS = ("spans", "ner_tags", "tags")
_LISTS = (*_SPANS, "tokens", "words", "answers")
_LABELS = ("label", "labels", "target", "class", "category", "score")

_CHOICE = "choice_"
_LABEL = "label_"


def find_columns(
    table: Table, may_lack_label: bool = False, choices: Sequence[str] = ()
) -> Columns:
    """Returns the columns of texts and labels, and those of the answers to choose from.

    The table's `names` override what is found; upper and lower case are alike.
    """
    texts = _find_texts(table, _QUESTIONS if choices else _PAIRS)
    columns = {column.lower(): column for column in table.columns}
    label = _find_label(table, may_lack_label)
    return Columns(*texts, label, choices=tuple(columns[name] for name in choices))


def has_label(table: Table) -> bool:
    """Returns whether a table has a column of labels."""
    return _find_label(table, optional=True) is not None


def hide_labels(table: Table) -> Table:
    """Returns a table in whose columns no labels, spans or tags are found, for predictions."""
    names = table.names
    texts = (names.text_column, names.text_pair_column)

    def is_label(column: str) -> bool:
        name = column.lower()
        is_usual = name in (*_LABELS, *_SPANS) or name.startswith(_LABEL)
        return column not in texts and (is_usual or column == names.label_column)

    columns = tuple("" if is_label(column) else column for column in table.columns)
    return dataclasses.replace(
        table, columns=columns, names=dataclasses.replace(names, label_column=None)
    )


def choice_columns(table: Table) -> list[str]:
    """Returns the columns `choice_a`, `choice_b`, ..., sorted."""
    found = sorted({name.lower() for name in table.columns if name.lower().startswith(_CHOICE)})
    expected = choice_names(max(2, len(found)))
    if found and found != expected:
        raise InputError(
            f"{table.name}: has the columns {', '.join(found)}; expected choice_a, choice_b and so on, "
            "without a gap"
        )
    return found


def choice_names(count: int) -> list[str]:
    """Returns the names of the columns of a number of choices."""
    return [_CHOICE + letter for letter in string.ascii_lowercase[:count]]


def find_label_names(table: Table) -> tuple[str, ...]:
    """Returns the names of the labels if a row may have any number of them; () if it has one label.

    They are those of the columns `label_<name>`, or the places in vectors of 0 and 1.
    """
    columns = _label_columns(table)
    if has_label(table):
        vectors = _read_vectors(table)
        if vectors is None:
            return ()
        return tuple(str(place) for place in range(len(vectors[0])))
    names = tuple(column[len(_LABEL) :] for column in columns)
    for name in names:
        if not name or LABEL_SEPARATOR in name or names.count(name) > 1:
            raise InputError(
                f"{table.name}: has the column '{_LABEL}{name}'; expected names of labels that differ, "
                f"without {LABEL_SEPARATOR}"
            )
    return names


def join_labels(table: Table, names: Sequence[str]) -> Table:
    """Returns a table with lists of names in place of vectors, or of columns, of 0 and 1.

    A table that has neither is returned as it is. `names` are those of the training set, if known.
    """
    found = find_label_names(table)
    if not found:
        return table
    names = names or found
    vectors = _read_vectors(table) if has_label(table) else None
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
        columns = dict(zip(found, _label_columns(table), strict=True))
        places = [table.columns.index(columns[name]) for name in names]
        vectors = [
            [_flag(table, number, fields, place) for place in places]
            for number, fields in zip(table.numbers, table.rows, strict=True)
        ]
    joined = [
        [*fields, [name for name, is_set in zip(names, vector, strict=True) if is_set]]
        for fields, vector in zip(table.rows, vectors, strict=True)
    ]
    hidden = ["" if column == _find_label(table, True) else column for column in table.columns]
    return dataclasses.replace(
        table,
        columns=(*hidden, "label"),
        rows=joined,
        names=dataclasses.replace(table.names, label_column=None),
    )


def list_columns(table: Table) -> list[int]:
    """Returns the positions of the columns whose cells may be lists."""
    labels = {table.names.label_column, *_label_columns(table)}
    return [
        position
        for position, column in enumerate(table.columns)
        if column in labels or column.lower() in (*_LABELS, *_LISTS)
    ]


def _label_columns(table: Table) -> list[str]:
    """Returns the columns `label_<name>`; a single one is a column of classes, e.g. `label_id`."""
    return [column for column in table.columns if column.lower().startswith(_LABEL)]


# A truth value, as sources have it -> the value.
_FLAGS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


def _flag(table: Table, number: int, fields: Sequence[Any], place: int) -> int:
    flag = _FLAGS.get(str(fields[place]).strip().lower())
    if flag is None:
        raise InputError(
            f"{table.place(number)}: {table.columns[place]} is '{fields[place]}'; expected 0 or 1"
        )
    return flag


def _read_vectors(table: Table) -> list[list[int]] | None:
    """Returns the labels of all rows if they are vectors of 0 and 1, of one length."""
    column = table.columns.index(_find_label(table, False))
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
    names = [str(value).lower() for value in cell]
    return [_FLAGS[name] for name in names] if all(name in _FLAGS for name in names) else None


def _find_texts(table: Table, pairs: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    names = table.names
    if names.text_column:
        second = names.text_pair_column
        return _named(table, "text_column"), second and _named(table, "text_pair_column")
    if names.text_pair_column:
        raise InputError("--text_pair_column: expected --text_column, too")
    columns = _usual_columns(table)
    found = [pair for pair in pairs if set(pair) <= set(columns)]
    firsts = [name for name in _TEXTS if name in columns]
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
        f"{table.name}: no column of texts, but {quote_names(_visible(table))}; expected "
        f"{quote_names(_TEXTS)}, or another one and --text_column"
    )


def _find_label(table: Table, optional: bool) -> str | None:
    if table.names.label_column:
        if optional and table.names.label_column not in table.columns:
            return None
        return _named(table, "label_column")
    columns = _usual_columns(table)
    found = [columns[name] for name in _LABELS if name in columns]
    if not found and len(single := _label_columns(table)) == 1:
        return single[0]
    if len(found) > 1:
        raise InputError(
            f"{table.name}: the columns {quote_names(found)} may all be the label; --label_column chooses"
        )
    if not found and not optional:
        raise InputError(
            f"{table.name}: no column of labels, but {quote_names(_visible(table))}; expected "
            f"{quote_names(_LABELS)}, or another one and --label_column"
        )
    return found[0] if found else None


def _visible(table: Table) -> list[str]:
    """Returns the columns that are not hidden."""
    return [column for column in table.columns if column]


def _named(table: Table, flag: str) -> str:
    name = getattr(table.names, flag)
    if name not in table.columns:
        raise InputError(
            f"--{flag}={name}: {table.name} has no such column, but {quote_names(_visible(table))}"
        )
    return name


def _usual_columns(table: Table) -> dict[str, str]:
    """Returns the columns by their names in lower case."""
    columns = {}
    for column in table.columns:
        name = column.lower()
        if name in columns and name in (*_TEXTS, *_LABELS):
            raise InputError(f"{table.name}: has the column '{name}' twice; expected it once")
        columns[name] = column
    return columns
