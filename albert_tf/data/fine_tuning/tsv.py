"""Makes examples of the rows of tables: one text, two texts or choices, and a label."""

import collections
import dataclasses
import math
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.data.fine_tuning.tables import Table, as_text, is_missing, read_unquoted
from albert_tf.errors import InputError


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
        may_lack_label: whether a row may have no label.
        broken_rows: accept empty texts, and skip incomplete rows of files with labels. The original does
            this for QQP, whose published files have some. In a test set no row is skipped, since the
            leaderboard expects all of them.
    """

    text_a: str | int
    text_b: str | int | None = None
    label: str | int | None = None
    guid: str | int | None = None
    choices: tuple[str, ...] = ()
    may_lack_label: bool = False
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
    """

    names: tuple[str, ...] | None = None


# Between the labels of a row.
LABEL_SEPARATOR = "|"

# The labels that exist: names, scores, or None for names that are not known yet.
Labels = Sequence[str] | Scores | LabelSets | None


def read_examples(path: str, columns: Columns, split: str, labels: Labels = None) -> list[Example]:
    """Reads a tab-separated file without quotes, as GLUE's are; see `make_examples`."""
    return make_examples(read_unquoted(path, columns.in_header), columns, split, labels)


def make_examples(
    table: Table, columns: Columns, split: str, labels: Labels = None
) -> list[Example]:
    """Makes an example of each row.

    Args:
        table: the rows.
        columns: their columns.
        split: `train`, `dev` or `test`: the prefix of the ids of rows without one.
        labels: the labels that exist; None accepts all.
    """
    rows = list(zip(table.numbers, table.rows, strict=True))
    width = len(table.columns or table.rows[0])
    positions = _find_in_header(table, columns) if columns.in_header else columns.present()
    if columns.broken_rows and columns.label is not None:
        rows = _without_short_rows(table.name, rows, width)
    # Lines count from 0 in the ids, as in the original.
    first = 1 if table.unit else 0
    examples = []
    for number, fields in rows:
        place = table.place(number)
        if len(fields) != width:
            hint = "needs quotes around it" if table.quoted else "cannot be in a text"
            raise InputError(
                f"{place}: columns: received {len(fields)}, expected {width} as in the first line; a "
                f"separator {hint}"
            )
        if width <= max(positions.values()):
            raise InputError(f"{place}: columns: received {width}, expected {_expected(columns)}")
        cells = {name: fields[position] for name, position in positions.items()}
        values = _read_values(place, cells, columns, labels)
        choices = tuple(values.pop(name) for name in columns.choices)
        guid = f"{split}-{number - first}"
        examples.append(Example(**{"guid": guid, "choices": choices} | values))
    for (number, _), example in zip(rows, examples, strict=True):
        if (example.label is None) != (examples[0].label is None):
            raise InputError(
                f"{table.place(number)}: expected a label in all rows, or in none, as in the first one"
            )
    return examples


def hold_out(
    examples: Sequence[Any], fraction: float, seed: int, by_label: bool
) -> tuple[list[Any], list[Any]]:
    """Splits a training set into one for training and a dev set, both in the order of the rows.

    Args:
        examples: the training set.
        fraction: fraction of the rows that becomes the dev set.
        seed: seed of the choice.
        by_label: whether the dev set gets the fraction of the rows of each label.
    """
    groups = collections.defaultdict(list)
    for row, example in enumerate(examples):
        groups[example.label if by_label else None].append(row)
    rng = np.random.default_rng(seed)
    chosen = set()
    for rows in groups.values():
        chosen.update(rng.permutation(rows)[: int(len(rows) * fraction + 0.5)].tolist())
    parts = [], []
    for row, example in enumerate(examples):
        parts[row in chosen].append(example)
    return parts


def _without_short_rows(path: str, rows: list, width: int) -> list:
    whole = [(number, fields) for number, fields in rows if len(fields) >= width]
    if len(whole) < len(rows):
        print(f"{path}: skipped {len(rows) - len(whole)} incomplete rows", file=sys.stderr)
    return whole


def _find_in_header(table: Table, columns: Columns) -> dict[str, int]:
    positions, header = {}, [name.strip() for name in table.columns]
    for field, name in columns.present().items():
        count = header.count(name.strip())
        if count > 1:
            raise InputError(f"{table.name}: received {count} columns '{name}', expected one")
        if count:
            positions[field] = header.index(name.strip())
        else:
            raise InputError(
                f"{table.name}: no column '{name}', but {quote_names(table.columns)}; expected "
                f"{_expected(columns)}"
            )
    return positions


def _read_values(
    place: str, cells: dict[str, Any], columns: Columns, labels: Labels
) -> dict[str, str | None]:
    """Returns the cells of a row as text."""
    required = () if columns.broken_rows else ("text_a", *columns.choices)
    values = {}
    for name, cell in cells.items():
        if name == "label":
            values[name] = _read_label(place, cell, labels, columns.may_lack_label)
            continue
        if isinstance(cell, list | dict | tuple):
            raise InputError(f"{place}: received {type(cell).__name__} in place of a text")
        values[name] = "" if is_missing(cell) else as_text(cell)
        if name in required and not values[name].strip():
            what = "text" if name == "text_a" else name
            raise InputError(f"{place}: the {what} is empty")
    return values


def _read_label(place: str, cell: Any, labels: Labels, is_optional: bool) -> str | None:
    """Returns a label without spaces around it, or around the names in a set of labels."""
    if is_missing(cell):
        if cell is None and is_optional:
            return None
        raise InputError(f"{place}: the label is missing ({cell})")
    if isinstance(cell, list | tuple):
        names = [as_text(name).strip() for name in cell]
        if not names:
            return ""
    elif isinstance(labels, LabelSets):
        names = [name.strip() for name in as_text(cell).split(LABEL_SEPARATOR)]
    else:
        names = [as_text(cell).strip()]
    label = LABEL_SEPARATOR.join(names)
    check_label(place, label, labels)
    return label


def check_label(place: str, label: str, labels: Labels) -> None:
    """Checks a label.

    Args:
        place: file and line, for the message.
        label: the label, without surrounding spaces.
        labels: the labels that exist; None accepts all.
    """
    if isinstance(labels, LabelSets):
        _check_label_set(place, label, labels.names)
    elif not label:
        raise InputError(f"{place}: the label is empty")
    elif isinstance(labels, Scores):
        _check_score(place, label, labels)
    elif labels is not None and label not in labels:
        raise InputError(
            f"{place}: unknown label {quote_names([label])}; expected {quote_names(labels)}"
        )


def _check_label_set(place: str, label: str, names: Sequence[str] | None) -> None:
    parts = label.split(LABEL_SEPARATOR)
    if not all(parts):
        raise InputError(
            f"{place}: received the labels {quote_names([label])}; expected one name or more, with "
            f"{LABEL_SEPARATOR} between two"
        )
    for number, part in enumerate(parts):
        check_label(place, part, names)
        if part in parts[:number]:
            raise InputError(
                f"{place}: received the label {quote_names([part])} twice; expected it once"
            )


def _check_score(place: str, label: str, scores: Scores) -> None:
    try:
        score = float(label)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{place}: label {quote_names([label])}; expected a number")
    if not scores.least <= score <= scores.greatest:
        raise InputError(
            f"{place}: label {label}; expected a number from {scores.least:g} to {scores.greatest:g}"
        )


def _expected(columns: Columns) -> str:
    names = columns.present().values()
    if not columns.in_header:
        return f"{max(names) + 1} or more"
    return f"a header row with {quote_names(list(names))}"


def quote_names(names: Sequence[str]) -> str:
    """Lists names for a message of one line."""
    shown = ", ".join(f"'{textwrap.shorten(name, 50)}'" for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
