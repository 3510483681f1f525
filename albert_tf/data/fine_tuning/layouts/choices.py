"""The data sets of multiple choice, as the Hub has their rows.

`SETS` is the table of the data sets. In most of them all rows have as many choices; rows of ARC differ,
and those with an unusual number are marked, so that a training leaves them out.
"""

import collections
import functools
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from albert_tf.data.fine_tuning.column_names import CHOICE_PREFIX, LABELS, TEXTS, usual_columns
from albert_tf.data.fine_tuning.layouts.layout import (
    Layout,
    cells,
    first_cell,
    refusal,
    replace_columns,
)
from albert_tf.errors import warn

if TYPE_CHECKING:
    from albert_tf.data.fine_tuning.tables import Table

_LETTERS = string.ascii_uppercase


class ChoiceSet(NamedTuple):
    """The columns of a data set.

    Attributes:
        name: what messages and the documentation call it.
        passage: the column of passages, if there is one.
        question: the column of questions.
        choices: a column for each choice, or the only column: of lists or, with `is_labelled`, of objects
            with the lists `text` and `label`, where labels are names of the choices.
        label: the column of the right choice: a letter, a number from 0, or a name.
        is_labelled: whether choices have names.
    """

    name: str
    passage: str | None
    question: str
    choices: tuple[str, ...]
    label: str
    is_labelled: bool = False


_ENDINGS = ("ending0", "ending1", "ending2", "ending3")
SETS = (
    ChoiceSet("RACE", "article", "question", ("options",), "answer"),
    ChoiceSet("SWAG", "sent1", "sent2", _ENDINGS, "label"),
    ChoiceSet("SWAG", "startphrase", "sent2", _ENDINGS, "label"),
    ChoiceSet("HellaSwag", "ctx_a", "ctx_b", ("endings",), "label"),
    ChoiceSet("COPA", "premise", "question", ("choice1", "choice2"), "label"),
    ChoiceSet("CommonsenseQA or ARC", None, "question", ("choices",), "answerKey", True),
)


def _is_of(table: "Table", one: ChoiceSet) -> bool:
    texts = {one.question} if one.passage is None else {one.passage, one.question}
    if not {*texts, *one.choices} <= {*table.columns} or any(
        column.lower().startswith(CHOICE_PREFIX) for column in table.columns
    ):
        return False
    labels = usual_columns(table.columns, LABELS)
    if not {*usual_columns(table.columns, TEXTS)} <= texts or not {*labels} <= {one.label}:
        return False
    first = first_cell(table, one.choices[0])
    if one.is_labelled:
        return isinstance(first, Mapping) and {"text", "label"} <= first.keys()
    return isinstance(first, list if len(one.choices) == 1 else str)


class _Options(NamedTuple):
    """The choices of a row: their names in the data, if they have some, and their texts."""

    names: Sequence[str]
    texts: Sequence[str]


def _read(table: "Table", one: ChoiceSet) -> "Table":
    options = _read_options(table, one)
    count = collections.Counter(len(each.texts) for each in options).most_common(1)[0][0]
    is_other = [len(each.texts) != count for each in options]
    if any(is_other) and not one.is_labelled:
        row = is_other.index(True)
        reason = f"received {len(options[row].texts)} choices, expected {count}"
        raise refusal(table, row, one.name, reason)
    added: dict[str, list[Any]] = {}
    if one.passage is not None:
        added["passage"] = cells(table, one.passage)
    added["question"] = cells(table, one.question)
    for number in range(count):
        added[CHOICE_PREFIX + _LETTERS[number].lower()] = [
            each.texts[number] if number < len(each.texts) <= count else None for each in options
        ]
    if one.label in table.columns:
        labels = cells(table, one.label)
        added["label"] = [
            _letter_of(label, each.names) for label, each in zip(labels, options, strict=True)
        ]
    if any(is_other):
        place = table.place(table.numbers[is_other.index(True)])
        warn(f"{place}: has not {count} choices, as most rows; in all {sum(is_other)} such rows")
        added["is_excluded"] = is_other
    read = filter(None, (one.passage, one.question, *one.choices, one.label))
    return replace_columns(table, {*read}, added)


def _read_options(table: "Table", one: ChoiceSet) -> list[_Options]:
    columns = [cells(table, column) for column in one.choices]
    if len(columns) > 1:
        return [_Options(one.choices, texts) for texts in zip(*columns, strict=True)]
    read = _labelled_options if one.is_labelled else _list_options
    options = []
    for row, cell in enumerate(columns[0]):
        if (found := read(cell)) is None:
            what = "lists of texts as 'text' and 'label'" if one.is_labelled else "a list of texts"
            reason = f"'{one.choices[0]}' is {cell!r:.80}; expected {what}"
            raise refusal(table, row, one.name, reason)
        options.append(found)
    return options


def _list_options(cell: Any) -> _Options | None:
    return _Options((), cell) if _are_texts(cell) else None


def _labelled_options(cell: Any) -> _Options | None:
    parts = cell if isinstance(cell, Mapping) else {}
    names: Any = parts.get("label")
    texts: Any = parts.get("text")
    is_valid = _are_texts(names) and _are_texts(texts) and len(names) == len(texts)
    return _Options(names, texts) if is_valid else None


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _letter_of(label: Any, names: Sequence[str]) -> Any:
    """Returns the letter of a choice by its name; None if the answer is not published."""
    if str(label) in names:
        return _LETTERS[[*names].index(str(label))]
    return None if str(label) == "-1" else label


CHOICES = tuple(
    Layout(one.name, functools.partial(_is_of, one=one), functools.partial(_read, one=one))
    for one in SETS
)
