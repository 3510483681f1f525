"""Tab-separated files -> examples.

The one reader for all tasks whose rows are a text, or two, or choices, and a label. Quotes are not
quoting, as in the GLUE files: a row is split at its tabs and nothing else.
"""

import dataclasses
import math
import sys
import textwrap
from collections.abc import Sequence

from albert_tf.errors import InputError
from albert_tf.files import read_lines


@dataclasses.dataclass(frozen=True)
class Example:
    """One row of a data set.

    Attributes:
        guid: the row's own id or, without one, split and row as in the original: `dev-1`.
        text_a: the text, or the first of a pair, or what a question is about.
        text_b: the second of a pair, or the question.
        label: the label's name, or a score in digits; None in a test set without labels.
        choices: for multiple choice, the answers to choose from; their labels are A, B, ...
        subset: the part of the set that has metrics of its own, as RACE's levels; empty without parts.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | None = None
    choices: tuple[str, ...] = ()
    subset: str = ""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Where a file has what.

    A column is a name in the header row or, in a file without one, a position from 0.

    Attributes:
        text_a: column of the text, or of the first of a pair.
        text_b: column of the second of a pair.
        label: column of the label.
        guid: column of the row's id.
        choices: columns of the answers to choose from.
        optional: the names that a header row may lack.
        broken_rows: whether texts may be empty, and rows that break off are left out where they have
            labels, as the original does with QQP, whose published files have some. Of a test set none
            is left out, since the leaderboard asks for all.
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
        """Returns field of `Example`, or name of a choice -> column, of those that the file holds."""
        columns = {name: getattr(self, name) for name in ("guid", "text_a", "text_b", "label")}
        columns |= {name: name for name in self.choices}
        return {name: column for name, column in columns.items() if column is not None}


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores that a regression's labels may be.

    Attributes:
        least: the least of them.
        greatest: the greatest of them.
    """

    # The square of an error between these is finite in float32.
    least: float = -1e18
    greatest: float = 1e18

    def clip(self, score: float) -> float:
        """Returns the nearest score that exists."""
        return min(max(score, self.least), self.greatest)


# The labels that exist: names, scores, or None for names that are not known yet.
Labels = Sequence[str] | Scores | None


def read_examples(path: str, columns: Columns, split: str, labels: Labels = None) -> list[Example]:
    """Reads a tab-separated file.

    Args:
        path: a UTF-8 file; blank lines hold no row.
        columns: where it has what.
        split: `train`, `dev` or `test`, which begins the ids of rows without one.
        labels: the labels that exist; None accepts all.

    Raises:
        InputError: the file cannot be read, lacks a column, has no rows, or has a row with a wrong
            number of columns, an empty text or label, or an unknown label.
    """
    rows = [(number, line.split("\t")) for number, line in read_lines(path) if line]
    if not rows:
        raise InputError(f"{path}: holds no rows")
    number, first = rows[0]
    place, width = f"{path}, line {number}", len(first)
    if any("\r" in field for field in first):
        raise InputError(
            rf"{place}: received lines that end in \r, the old Macintosh's; expected \n or \r\n"
        )
    if columns.in_header:
        positions = _find_in_header(place, first, columns)
        del rows[0]
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
        print(f"{path}: rows that break off: {len(rows) - len(whole)}, left out", file=sys.stderr)
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
    """Refuses what no model can learn from; strips the label."""
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
        label: the label, without spaces around it.
        labels: the labels that exist; None accepts all.

    Raises:
        InputError: it is empty, or none of those that exist.
    """
    if not label:
        raise InputError(f"{place}: the label is empty")
    if isinstance(labels, Scores):
        _check_score(place, label, labels)
    elif labels is not None and label not in labels:
        raise InputError(f"{place}: unknown label {_quote([label])}; expected {_quote(labels)}")


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
    """Lists names for a message, which stays one line of a bearable length."""
    shown = ", ".join(f"'{textwrap.shorten(name, 50)}'" for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
