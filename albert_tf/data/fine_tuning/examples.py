"""Makes examples of the rows of tables: one text, two texts or choices, and a label."""

import collections
import dataclasses
import hashlib
import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from albert_tf.data.fine_tuning.cells import LABEL_SEPARATOR, as_text, is_missing
from albert_tf.data.fine_tuning.tables import Table, read_unquoted
from albert_tf.data.fine_tuning.written_values import is_bracketed
from albert_tf.errors import InputError, warn

# What programs write for a value that is missing, in lower case; `None` and `N/A` are also usual labels.
_MISSING = ("nan", "null", r"\n", "<na>", "nat", "#n/a")


@dataclasses.dataclass(frozen=True)
class Example:
    """One row of a data set."""

    guid: str  # id of the row in the file, or else split and row as in the original: `dev-1`
    text_a: str  # the text, the first text of a pair, or the passage
    text_b: str | None = None  # the second text of a pair, or the question
    label: str | None = None  # a name, or a score in digits; None in a test set without labels
    choices: tuple[str, ...] = ()  # the answers to choose from; their labels are A, B, ...
    negative: str | None = None  # a text that does not belong to the first, beside a pair that does
    subset: str = ""  # part of the set with metrics of its own, like RACE's levels
    is_blank: bool = False  # whether a text that it needs is empty, so that it has no answer

    @classmethod
    def of_texts(
        cls, text_a: str, text_b: str | None = None, *, choices: Sequence[str] = ()
    ) -> Self:
        """Makes an example without id and label."""
        is_blank = not all(text.strip() for text in (text_a, *choices))
        return cls("", text_a, text_b, choices=tuple(choices), is_blank=is_blank)

    @property
    def texts(self) -> tuple:
        """All that a model reads."""
        negatives = () if self.negative is None else (self.negative,)
        return self.text_a, self.text_b, self.choices, *negatives

    @property
    def known_label(self) -> str:
        """The label of an example that has one."""
        assert self.label is not None
        return self.label

    def known(self) -> dict[str, str]:
        """Returns the id and, if there is one, the label, for rows of predictions."""
        return {"guid": self.guid, **({} if self.label is None else {"label": self.label})}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a file, by field of `Example`.

    A column is a name in the header row or, in a file without one, a position from 0.
    """

    text_a: str | int
    text_b: str | int | None = None
    label: str | int | None = None
    guid: str | int | None = None
    choices: tuple[str, ...] = ()
    negative: str | None = None
    # Accept empty texts, and skip incomplete rows, as the original does for QQP, whose published files
    # have some. In a test set no row is skipped, since the leaderboard expects all of them.
    broken_rows: bool = False
    # Columns whose texts stand before the first text, with a colon after each; a word that a question is
    # about, say.
    prefixes: tuple[str, ...] = ()
    # Label in the file, a number or truth value as a CSV file has it -> its name, if that is another.
    spellings: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def in_header(self) -> bool:
        """Whether the file's first line is a header row."""
        return isinstance(self.text_a, str)


@dataclasses.dataclass(frozen=True)
class ScoreRange:
    """The range of a regression's scores."""

    # The square of an error between these is finite in float32.
    least: float = -1e18
    greatest: float = 1e18


@dataclasses.dataclass(frozen=True)
class MultiLabels:
    """The labels of which a row may have any number; their names are None if not known yet."""

    names: tuple[str, ...] | None = None


# The labels that exist: names, scores, or None for names that are not known yet.
Labels = Sequence[str] | ScoreRange | MultiLabels | None


def first_text(texts: Sequence[str]) -> str:
    """Returns the texts of `prefixes` and the first text as one."""
    return ": ".join(texts)


def read_glue_table(path: str, columns: Columns) -> Table:
    """Reads a tab-separated file without quotes, as GLUE's are."""
    skip_short = columns.broken_rows and columns.label is not None
    return read_unquoted(path, columns.in_header, skip_short)


def make_examples(
    table: Table,
    columns: Columns,
    split: str,
    labels: Labels = None,
    keeps_blank: bool = False,
) -> list[Example]:
    """Makes an example of each row.

    The split, `train`, `dev` or `test`, is the prefix of the ids of rows without one. In a test set rows
    may lack labels. `labels` are those that exist; None accepts all. A warning counts rows without a
    text: they are left out of a training set and, with `keeps_blank`, have no answer. Elsewhere they are
    refused, and where no row has a text.
    """
    positions = _find_positions(table, columns)
    # Lines count from 0 in the ids, as in the original.
    first = 1 if table.unit else 0
    examples, numbers, faults = [], [], []
    for number, row in zip(table.numbers, table.rows, strict=True):
        place = table.place(number)
        texts = {
            name: _read_text(place, row[position])
            for name, position in positions.items()
            if name != "label"
        }
        if empty := _empty_texts(texts, columns):
            faults.append(f"{place}: the {'text' if empty[0] == 'text_a' else empty[0]} is empty")
            if split == "train":
                continue
            if not keeps_blank:
                raise InputError(faults[0])
        label = None
        if columns.label is not None:
            cell = row[positions["label"]]
            # Of a single label an empty list is none, as doccano writes it.
            if isinstance(cell, list) and not (cell or isinstance(labels, MultiLabels)):
                cell = None
            if not (cell is None and split == "test"):
                label = _read_label(place, cell, labels, columns.spellings)
        examples.append(
            Example(
                guid=texts.get("guid", f"{split}-{number - first}"),
                text_a=first_text([texts[name] for name in (*columns.prefixes, "text_a")]),
                text_b=texts.get("text_b"),
                negative=texts.get("negative"),
                label=label,
                choices=tuple(texts[name] for name in columns.choices),
                is_blank=bool(empty),
            )
        )
        numbers.append(number)
    if faults and len(faults) == len(table.rows):
        raise InputError(faults[0])
    if faults:
        result = "without an answer" if keeps_blank else "left out"
        warn(f"{faults[0]}; {result}: {len(faults)} of {len(table.rows)} rows")
    for number, example in zip(numbers, examples, strict=True):
        if (example.label is None) != (examples[0].label is None):
            raise InputError(
                f"{table.place(number)}: expected a label in all rows, or in none, as in the first one"
            )
    return examples


def hold_out(
    examples: Sequence[Any], fraction: float, seed: int, by_label: bool
) -> tuple[list[Any], list[Any]]:
    """Splits a training set into one for training and a dev set, both in the order of the rows.

    The dev set is a fraction of the rows, or with `by_label` of the rows of each label; labels, or sets
    of labels, that are too rare for a row in it count together. It has the rows with the lowest hashes of
    the seed and their texts, so most rows keep their set if others are added.
    """
    groups = collections.defaultdict(list)
    hashes = []
    counts: collections.Counter[str] = collections.Counter()
    for row, example in enumerate(examples):
        groups[example.label if by_label else None].append(row)
        content = json.dumps((seed, getattr(example, "texts", example)), default=repr)
        counts[content] += 1  # otherwise the dev set could be a single text
        hashes.append(hashlib.sha256(f"{counts[content]} {content}".encode()).digest())

    def draw(rows: list[int]) -> list[int]:
        return sorted(rows, key=hashes.__getitem__)[: int(len(rows) * fraction + 0.5)]

    dev, rare = set(), []
    for rows in groups.values():
        drawn = draw(rows)
        dev.update(drawn)
        if not drawn:
            rare += rows
    dev.update(draw(rare))
    parts: tuple[list[Any], list[Any]] = ([], [])
    for row, example in enumerate(examples):
        parts[row in dev].append(example)
    return parts


def _find_positions(table: Table, columns: Columns) -> dict[str, int]:
    """Returns the positions of a row's columns, by field of `Example`, or name of prefix or choice."""
    fields = ("guid", "text_a", "text_b", "negative", "label")
    named = {field: getattr(columns, field) for field in fields}
    found = {field: column for field, column in named.items() if column is not None}
    found |= {name: name for name in (*columns.prefixes, *columns.choices)}
    if not columns.in_header:
        width, expected = len(table.rows[0]), max(found.values()) + 1
        if width < expected:
            place = table.place(table.numbers[0])
            raise InputError(f"{place}: columns: received {width}, expected {expected} or more")
        return found
    for name in found.values():
        count = table.columns.count(name)
        if count > 1:
            raise InputError(f"{table.name}: received {count} columns '{name}', expected one")
        if not count:
            raise InputError(
                f"{table.name}: no column '{name}', but {quote_names(table.columns)}; expected "
                f"{table.names_in} {quote_names(list(found.values()))}"
            )
    return {field: table.columns.index(name) for field, name in found.items()}


def _read_text(place: str, cell: Any) -> str:
    return "" if is_missing(cell) else as_text(cell, place)


def _empty_texts(values: Mapping[str, str], columns: Columns) -> list[str]:
    """Returns the names of the texts that a row needs and lacks."""
    required = () if columns.broken_rows else (*columns.prefixes, "text_a", *columns.choices)
    return [name for name in required if not values[name].strip()]


def _read_label(place: str, cell: Any, labels: Labels, spellings: Mapping[str, str]) -> str:
    """Returns a label, or the names in a set of labels, each in one form for all sources.

    `spellings` are those of `Columns`.
    """
    is_list, has_sets = isinstance(cell, list), isinstance(labels, MultiLabels)
    names = cell if is_list else [cell]
    if any(map(is_missing, names)):
        raise InputError(f"{place}: the label is missing ({cell})")
    if has_sets and not is_list:
        names = as_text(cell, place).split(LABEL_SEPARATOR)
    if isinstance(labels, MultiLabels):
        known: Sequence[str] = labels.names or ()
    else:
        known = labels if isinstance(labels, Sequence) else ()
    is_score = isinstance(labels, ScoreRange)
    for name in names:
        is_share = is_list and isinstance(name, float) and not (is_score or name.is_integer())
        if is_share or (name not in known and _is_structure(name)):
            raise InputError(
                f"{place}: received the label {quote_names([str(name)])}; expected a name, or names with "
                f"{LABEL_SEPARATOR} between two, or in a list with quotes"
            )
        if has_sets and LABEL_SEPARATOR in str(name):
            raise InputError(
                f"{place}: the label {quote_names([name])} has {LABEL_SEPARATOR}, which separates labels"
            )
    names = [as_text(name, place) for name in names]
    names = [name if is_score else label_name(name, known) for name in names]
    label = LABEL_SEPARATOR.join(spellings.get(name, name) for name in names)
    if names:
        check_label(place, label, labels)
    return label


def _is_structure(name: Any) -> bool:
    """Returns whether the name of a label is rather a list or an object, which could not be read."""
    is_cut = isinstance(name, str) and name.startswith(("['", '["'))
    return isinstance(name, list | dict) or is_cut or is_bracketed(str(name))


def label_name(text: str, known: Collection[str] = ()) -> str:
    """Returns the name of a label: in NFC, with single spaces, a whole number without a fraction.

    The names of `known` labels are as they are.
    """
    if text in known:
        return text
    name = unicodedata.normalize("NFC", " ".join(text.split()))
    return name.partition(".")[0] if re.fullmatch(r"[+-]?\d+\.0+", name) else name


def collect_names(names: Sequence[str], path: str) -> tuple[str, ...]:
    """Returns the labels of a training file, given those of its rows.

    They are sorted by name; if all are whole numbers, by their values. A warning counts those that may
    stand for none.
    """
    counts = collections.Counter(names)
    for name, count in counts.items():
        if name.lower() in _MISSING:
            warn(
                f"{path}: {quote_names([name])} is read as the name of a label; rows with it: {count}"
            )
    try:
        return tuple(sorted(counts, key=int))
    except ValueError:
        return tuple(sorted(counts))


def check_label(place: str, label: str, labels: Labels) -> None:
    """Checks that a label, without surrounding spaces, is one of `labels`; `place` is file and line."""
    if re.search(r"[\ud800-\udfff]", label):  # JSON can spell it, and no graph can hold it
        raise InputError(f"{place}: the label {label!r} has half a surrogate pair, no character")
    if isinstance(labels, MultiLabels):
        _check_label_set(place, label, labels.names)
    elif not label:
        raise InputError(f"{place}: the label is empty")
    elif isinstance(labels, ScoreRange):
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


def _check_score(place: str, label: str, scores: ScoreRange) -> None:
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


def quote_names(names: Sequence[str], most: int = 10) -> str:
    """Lists names for a message of one line, `most` of them in full."""
    shown = ", ".join(f"'{textwrap.shorten(name, 50)}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
