"""Reads examples from tab-separated files.

The reader of all tasks whose rows are one text, two texts or choices, and a label. As in the GLUE files,
quotes have no meaning: a row is split at its tabs.
"""

import dataclasses
import math
import sys
import textwrap
from collections.abc import Sequence
from typing import Self

from albert_tf.errors import InputError
from albert_tf.files import read_lines


@dataclasses.dataclass(frozen=True)
class Example:
    """One row of a data set.

    Attributes:
        guid: id of the row in the file or, if it has none, split and row as in the original: `dev-1`.
        text_a: the text, the first text of a pair, or the passage.
        text_b: the second text of a pair, or the question.
        label: name of the label, or a score in digits; None in a test set without labels.
        choices: for multiple choice, the answers to choose from; their labels are A, B, ...
        subset: part of the set with metrics of its own, like RACE's levels; may be empty.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | None = None
    choices: tuple[str, ...] = ()
    subset: str = ""

    def known(self) -> dict[str, str]:
        """Returns the id and, if there is one, the label, for rows of predictions."""
        return {"guid": self.guid, **({} if self.label is None else {"label": self.label})}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a file.

    A column is a name in the header row or, in a file without one, a position from 0.

    Attributes:
        text_a: column of the text, or of the first text of a pair.
        text_b: column of the second text of a pair.
        label: column of the label.
        guid: column of the row's id.
        choices: columns of the answers to choose from.
        optional: columns that a file may lack.
        broken_rows: accept empty texts, and skip incomplete rows of files with labels. The original does
            this for QQP, whose published files have some. In a test set no row is skipped, since the
            leaderboard expects all of them.
    """

    text_a: str | int
    text_b: str | int | None = None
    label: str | int | None = None
    guid: str | int | None = None
    choices: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    broken_rows: bool = False

    @property
    def in_header(self) -> bool:
        """Whether the file's first line is a header row."""
        return isinstance(self.text_a, str)

    def present(self) -> dict[str, str | int]:
        """Returns the columns of the file by field of `Example` or name of a choice."""
        columns = {name: getattr(self, name) for name in ("guid", "text_a", "text_b", "label")}
        columns |= {name: name for name in self.choices}
        return {name: column for name, column in columns.items() if column is not None}


@dataclasses.dataclass(frozen=True)
class Scores:
    """The range of a regression's scores.

    Attributes:
        least: least score.
        greatest: greatest score.
    """

    # The square of an error between these is finite in float32.
    least: float = -1e18
    greatest: float = 1e18

    def clip(self, score: float) -> float:
        """Returns the nearest score within the range."""
        return min(max(score, self.least), self.greatest)


@dataclasses.dataclass(frozen=True)
class LabelSets:
    """The labels of which a row may have any number.

    Attributes:
        names: names of the labels; None if they are not known yet.
        may_be_empty: whether a row may have none of them.
    """

    names: tuple[str, ...] | None = None
    may_be_empty: bool = False


# Between the labels of a row.
LABEL_SEPARATOR = "|"

# The labels that exist: names, scores, or None for names that are not known yet.
Labels = Sequence[str] | Scores | LabelSets | None


@dataclasses.dataclass(frozen=True)
class Table:
    """The rows of a tab-separated file.

    Attributes:
        path: the file, for messages.
        rows: number of the line, from 1, and its fields; the first row may be a header row.
    """

    path: str
    rows: list[tuple[int, list[str]]]

    @classmethod
    def read(cls, path: str) -> Self:
        """Reads a UTF-8 file, without its blank lines.

        Raises:
            InputError: the file cannot be read or holds no row.
        """
        rows = [(number, line.split("\t")) for number, line in read_lines(path) if line]
        if not rows:
            raise InputError(f"{path}: holds no rows")
        return cls(path, rows)

    @property
    def header(self) -> list[str]:
        """The fields of the first row."""
        return self.rows[0][1]


def read_examples(path: str, columns: Columns, split: str, labels: Labels = None) -> list[Example]:
    """Reads a tab-separated file; see `make_examples`."""
    return make_examples(Table.read(path), columns, split, labels)


def make_examples(
    table: Table, columns: Columns, split: str, labels: Labels = None
) -> list[Example]:
    """Makes an example of each row.

    Args:
        table: the file.
        columns: its columns.
        split: `train`, `dev` or `test`: the prefix of the ids of rows without one.
        labels: the labels that exist; None accepts all.

    Raises:
        InputError: a column is missing, there are no rows, or a row has a wrong number of columns, an
            empty text or label, or an unknown label.
    """
    path, rows = table.path, table.rows
    number, first = rows[0]
    place, width = f"{path}, line {number}", len(first)
    if any("\r" in field for field in first):
        raise InputError(rf"{place}: received lines that end in \r; expected \n or \r\n")
    if columns.in_header:
        positions = _find_in_header(place, first, columns)
        rows = rows[1:]
    else:
        positions = columns.present()
    if columns.broken_rows and columns.label is not None:
        rows = _without_short_rows(path, rows, width)
    examples = []
    for number, fields in rows:
        place = f"{path}, line {number}"
        if len(fields) != width:
            raise InputError(
                f"{place}: columns: received {len(fields)}, expected {width} as in the first "
                "line; a text cannot hold a tab"
            )
        if width <= max(positions.values()):
            raise InputError(f"{place}: columns: received {width}, expected {_expected(columns)}")
        values = {name: fields[position] for name, position in positions.items()}
        _check_values(place, values, columns, labels)
        choices = tuple(values.pop(name) for name in columns.choices)
        # Lines count from 0 in the ids, as in the original.
        guid = f"{split}-{number - 1}"
        examples.append(Example(**{"guid": guid, "choices": choices} | values))
    if not examples:
        raise InputError(f"{path}: holds no rows after the header row")
    return examples


def _without_short_rows(path: str, rows: list, width: int) -> list:
    whole = [(number, fields) for number, fields in rows if len(fields) >= width]
    if len(whole) < len(rows):
        print(f"{path}: skipped {len(rows) - len(whole)} incomplete rows", file=sys.stderr)
    return whole


def _find_in_header(place: str, header: list[str], columns: Columns) -> dict[str, int]:
    positions = {}
    for field, name in columns.present().items():
        found = [position for position, other in enumerate(header) if other.strip() == name]
        if len(found) > 1:
            raise InputError(
                f"{place}: received {len(found)} columns '{name}' in the header row, expected one"
            )
        if found and header[found[0]] != name:
            raise InputError(
                f"{place}: received '{header[found[0]]}' in the header row, expected '{name}' "
                "without spaces around it"
            )
        if found:
            positions[field] = found[0]
        elif name not in columns.optional:
            raise InputError(
                f"{place}: no column '{name}' in the header row, which has {_quote(header)}; "
                f"expected {_expected(columns)}"
            )
    return positions


def _check_values(place: str, values: dict[str, str], columns: Columns, labels: Labels) -> None:
    """Checks that texts and label are not empty; strips the label."""
    texts = () if columns.broken_rows else ("text_a", *columns.choices)
    for name in texts:
        if not values[name].strip():
            what = "text" if name == "text_a" else name
            raise InputError(f"{place}: the {what} is empty")
    if "label" in values:
        values["label"] = values["label"].strip()
        check_label(place, values["label"], labels)


def check_label(place: str, label: str, labels: Labels) -> None:
    """Checks a label.

    Args:
        place: file and line, for the message.
        label: the label, without surrounding spaces.
        labels: the labels that exist; None accepts all.

    Raises:
        InputError: the label is empty or does not exist.
    """
    if isinstance(labels, LabelSets) and labels.may_be_empty and not label:
        return
    if isinstance(labels, LabelSets):
        _check_label_set(place, label, labels.names)
    elif not label:
        raise InputError(f"{place}: the label is empty")
    elif isinstance(labels, Scores):
        _check_score(place, label, labels)
    elif labels is not None and label not in labels:
        raise InputError(f"{place}: unknown label {_quote([label])}; expected {_quote(labels)}")


def _check_label_set(place: str, label: str, names: Sequence[str] | None) -> None:
    parts = label.split(LABEL_SEPARATOR)
    if not all(parts):
        raise InputError(
            f"{place}: received the labels {_quote([label])}; expected one name or more, with "
            f"{LABEL_SEPARATOR} between two"
        )
    for number, part in enumerate(parts):
        check_label(place, part, names)
        if part in parts[:number]:
            raise InputError(
                f"{place}: received the label {_quote([part])} twice; expected it once"
            )


def _check_score(place: str, label: str, scores: Scores) -> None:
    try:
        score = float(label)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{place}: label {_quote([label])}; expected a number")
    if not scores.least <= score <= scores.greatest:
        raise InputError(
            f"{place}: label {label}; expected a number from {scores.least:g} to {scores.greatest:g}"
        )


def _expected(columns: Columns) -> str:
    names = columns.present().values()
    if not columns.in_header:
        return f"{max(names) + 1} or more"
    required = [name for name in names if name not in columns.optional]
    return f"a header row with {_quote(required)}"


def _quote(names: Sequence[str]) -> str:
    """Lists names for a message of one line."""
    shown = ", ".join(f"'{textwrap.shorten(name, 50)}'" for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
