"""Reads the rows of CSV and TSV files as fields of text, with the numbers of their lines."""

import csv
import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

from albert_tf import files
from albert_tf.errors import InputError, warn

# What may separate columns in files that are named `.csv`: that of Excel depends on the language.
_CSV_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
# The first line of some of Excel's files.
NAMED_SEPARATOR = re.compile(r'"?sep=(.)"?')
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SPACED_QUOTE = re.compile(' +"')
# Of `csv`, whose own is 128 Ki characters.
_MAX_TEXT_LENGTH = 1 << 30

Rows = list[tuple[int, list[str]]]


class DelimitedRows(NamedTuple):
    """The numbers of lines and their fields, with the rule for separators in texts."""

    rows: Rows
    rule: str
    has_open_quotes: bool = False  # whether some fields begin, but do not end with a quote


def read_csv(path: str, content: Iterable[bytes]) -> DelimitedRows:
    """Reads a CSV file, whose first line tells the separator.

    In RFC 4180 a field that begins with spaces is not quoted. If all fields that have a quote after them
    end with one, too, they are read as quoted, without the spaces.
    """
    lines = list(files.decode_lines(content, path, files.decode_strictly))
    first, start = lines[0][1] if lines else "", 1
    if named := NAMED_SEPARATOR.fullmatch(first):
        separator, start = named[1], 2
    else:
        separator = next((candidate for candidate in _CSV_SEPARATORS if candidate in first), ",")
        if separator != ",":
            warn(f"{path}: columns are separated by {_CSV_SEPARATORS[separator]}, not by commas")
    read = _read_quoted(path, lines[start - 1 :], separator, start)
    if not _have_spaced_quotes(read.rows):
        return read
    try:
        spaced = _read_quoted(path, lines[start - 1 :], separator, start, skip_spaces=True)
    except InputError:
        return read
    if _have_spaced_quotes(spaced.rows):
        return read
    warn(f"{path}: spaces before quotes are not read")
    return spaced


def _have_spaced_quotes(rows: Rows) -> bool:
    return any(_SPACED_QUOTE.match(field) for _, fields in rows for field in fields)


def read_tsv(path: str, content: Iterable[bytes]) -> DelimitedRows:
    """Reads a TSV file; quotes are those of RFC 4180 if all fields that begin with one say so."""
    lines = list(files.decode_lines(content, path, files.decode_strictly))
    rows = [line.split("\t") for _, line in lines if line]
    quoted = [field for row in rows for field in row if field.startswith('"')]
    are_closed = all(_QUOTED.fullmatch(field) for field in quoted)
    if are_closed or len({len(row) for row in rows}) > 1:
        return _read_quoted(path, lines, "\t")._replace(has_open_quotes=not are_closed)
    warn(f"{path}: quotes are read as characters, since not all are closed in their column")
    return split_at_tabs(path, lines)


def split_at_tabs(
    path: str, lines: Iterable[tuple[int, str]], skip_short: bool = False
) -> DelimitedRows:
    """Splits lines at tabs, whatever quotes they have.

    With `skip_short`, rows with fewer columns than the first are left out.
    """
    rows = [(number, line.split("\t")) for number, line in lines if line]
    if rows and any("\r" in field for field in rows[0][1]):
        raise InputError(files.wrong_line_ends(f"{path}, line {rows[0][0]}"))
    if skip_short:
        whole = [(number, fields) for number, fields in rows if len(fields) >= len(rows[0][1])]
        if len(whole) < len(rows):
            print(f"{path}: skipped {len(rows) - len(whole)} incomplete rows", file=sys.stderr)
        rows = whole
    return DelimitedRows(rows, "cannot be in a text")


def _read_quoted(
    path: str,
    lines: Iterable[tuple[int, str]],
    delimiter: str,
    start: int = 1,
    skip_spaces: bool = False,
) -> DelimitedRows:
    """Reads quoted fields; `start` is the number of the first line."""
    limit = csv.field_size_limit(_MAX_TEXT_LENGTH)
    reader = csv.reader(
        (f"{line}\n" for _, line in lines),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=skip_spaces,
    )
    rows, first = [], start
    try:
        for fields in reader:
            if fields:
                rows.append((start, fields))
            start = first + reader.line_num
    except csv.Error as error:
        place = f"{path}, line {start}"
        if "new-line" in str(error):
            raise InputError(files.wrong_line_ends(place)) from error
        reason = str(error).replace("\t", "tab")
        raise InputError(
            f"{place}: {reason}; expected quotes around a text that begins with a quote, and each quote "
            'in it twice: ""'
        ) from error
    finally:
        csv.field_size_limit(limit)
    return DelimitedRows(rows, "needs quotes around it")
