"""Finds the columns of texts and labels in the user's own tables, by their usual names."""

import dataclasses
import string
from collections.abc import Sequence

from albert_tf.data.fine_tuning.tables import Table
from albert_tf.data.fine_tuning.tsv import LABEL_SEPARATOR, Columns, quote_names
from albert_tf.errors import InputError

_TEXTS = (
    *("text_a", "text", "sentence", "sentence1", "sentence_a", "premise", "question", "question1"),
    *("query", "anchor", "passage", "article", "context", "content", "document", "review", "tweet"),
)
_PAIRS = (
    *(("text_a", "text_b"), ("text", "text_pair"), ("sentence1", "sentence2")),
    *(("sentence_a", "sentence_b"), ("premise", "hypothesis"), ("question1", "question2")),
    *(("question", "sentence"), ("question", "answer"), ("question", "passage")),
    *(("question", "context"), ("query", "passage"), ("query", "document"), ("anchor", "positive")),
)
_QUESTIONS = (
    *(("text_a", "text_b"), ("article", "question"), ("passage", "question")),
    ("context", "question"),
)
_SPANS = ("spans", "ner_tags", "tags")
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
    return Columns(*texts, _find_label(table, may_lack_label), choices=tuple(choices))


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
    found = sorted({name for name in table.columns if name.startswith(_CHOICE)})
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


def label_names(table: Table) -> tuple[str, ...]:
    """Returns the names of the labels that have columns, if there is no column of all labels."""
    names = tuple(name.removeprefix(_LABEL) for name in table.columns if name.startswith(_LABEL))
    if not names or has_label(table):
        return ()
    for name in names:
        if not name or LABEL_SEPARATOR in name or names.count(name) > 1:
            raise InputError(
                f"{table.name}: has the column '{_LABEL}{name}'; expected names of labels that differ, "
                f"without {LABEL_SEPARATOR}"
            )
    return names


def join_label_columns(table: Table, names: Sequence[str]) -> Table:
    """Returns a table with the column `label` in place of columns of 0 and 1."""
    found = label_names(table)
    if set(found) != set(names):
        raise InputError(
            f"{table.name}: received columns of the labels {', '.join(found)}; expected "
            f"{', '.join(names)}, as in the training file"
        )
    places = {name: table.columns.index(_LABEL + name) for name in names}
    joined = []
    for number, fields in zip(table.numbers, table.rows, strict=True):
        chosen = []
        for name, place in places.items():
            if fields[place] not in ("0", "1", 0, 1):
                raise InputError(
                    f"{table.place(number)}: {_LABEL}{name} is '{fields[place]}'; expected 0 or 1"
                )
            chosen += [name] * int(fields[place])
        joined.append([*fields, chosen])
    return dataclasses.replace(table, columns=(*table.columns, "label"), rows=joined)


def _find_texts(table: Table, pairs: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    names = table.names
    if names.text_column:
        second = names.text_pair_column
        return _named(table, "text_column"), second and _named(table, "text_pair_column")
    if names.text_pair_column:
        raise InputError("--text_pair_column: expected --text_column, too")
    columns = _by_usual_name(table)
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
        f"{table.name}: no column of texts, but {quote_names(table.columns)}; expected "
        f"{quote_names(_TEXTS)}, or another one and --text_column"
    )


def _find_label(table: Table, optional: bool) -> str | None:
    if table.names.label_column:
        if optional and table.names.label_column not in table.columns:
            return None
        return _named(table, "label_column")
    columns = _by_usual_name(table)
    found = [columns[name] for name in _LABELS if name in columns]
    if len(found) > 1:
        raise InputError(
            f"{table.name}: the columns {quote_names(found)} may all be the label; --label_column chooses"
        )
    if not found and not optional:
        raise InputError(
            f"{table.name}: no column of labels, but {quote_names(table.columns)}; expected "
            f"{quote_names(_LABELS)}, or another one and --label_column"
        )
    return found[0] if found else None


def _named(table: Table, flag: str) -> str:
    name = getattr(table.names, flag)
    if name not in table.columns:
        raise InputError(
            f"--{flag}={name}: {table.name} has no such column, but {quote_names(table.columns)}"
        )
    return name


def _by_usual_name(table: Table) -> dict[str, str]:
    """Returns the columns by their names in lower case."""
    columns = {}
    for column in table.columns:
        name = column.lower()
        if name in columns and name in (*_TEXTS, *_LABELS):
            raise InputError(f"{table.name}: has the column '{name}' twice; expected it once")
        columns[name] = column
    return columns
