r"""Reads rows with named columns from whatever holds them: files, and tables in memory.

`TABLE_FORMATS` lists the formats of files. Those with first bytes of their own are told by these, others
by the suffix of their name, without that of a compressed file; a name with an unknown suffix is that of
tab-separated values. A name without a suffix, such as that of a pipe, says nothing; then the first line
does. CSV follows RFC 4180: a quoted text may hold separators, line ends and doubled quotes. So does TSV
whose quotes are all closed; otherwise quotes are characters, as in GLUE's files. JSON is an object per
line, or one list of them. A folder is one that `save_to_disk` of `datasets` wrote. Workbooks of Excel
begin like any zip archive, so only their suffix tells them.
"""

import codecs
import csv
import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.data.fine_tuning import arrow, workbooks
from albert_tf.data.fine_tuning.cells import decode, is_missing
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.source_files import JSON_SUFFIXES, suffix_of
from albert_tf.errors import InputError, name_place, warn
from albert_tf.extras import check_extra

_JSON_LAYOUT = (
    """an object per line, such as {"text": "Fine.", "label": "yes"}, or one list of them"""
)
# What may separate columns in files that are named `.csv`: that of Excel depends on the language.
_CSV_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
# Of `csv`, whose own is 128 Ki characters.
_MAX_TEXT_LENGTH = 1 << 30


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    name: str  # file or argument, for messages
    columns: tuple[str, ...]  # empty for a file without a header row
    rows: Sequence[Sequence[Any]]  # of text or, of typed sources, anything else, `None` for none
    numbers: Sequence[int]  # of the rows, as messages and ids have them
    unit: str = "line"  # what the numbers count: `line`, `row`, or nothing for places in a list
    names_in: str = "columns"  # what has the names of columns, for messages
    names: ColumnNames = dataclasses.field(default_factory=ColumnNames)

    @classmethod
    def read(cls, source: Any, name: str = "data", names: ColumnNames | None = None) -> "Table":
        """Reads a path, a pandas DataFrame, a `datasets.Dataset`, or a sequence of mappings.

        `name` is what messages call a source in memory. A table is returned as it is.
        """
        if isinstance(source, Table):
            return source
        if isinstance(source, str | os.PathLike):
            table = _read_path(files.as_path(source))
        else:
            table = _read_memory(source, name)
        if not table.rows:
            raise InputError(f"{table.name}: holds no rows")
        return dataclasses.replace(table, names=names or ColumnNames())

    def place(self, number: int) -> str:
        """Returns where a row is, given its number."""
        if not self.unit:
            return f"{self.name}[{number}]"
        return f"{self.name}, {self.unit} {number}"


def is_table(path: str) -> bool:
    """Returns whether the name of a file says that it has named columns."""
    return files.is_folder(path) or _format_of_name(path) is not None


def read_unquoted(path: str, has_header: bool, skip_short: bool = False) -> Table:
    """Reads a file whose rows are split at tabs, as in the GLUE files: quotes have no meaning.

    With `skip_short`, rows with fewer columns than the first are left out.
    """
    return _split_at_tabs(
        path, lines=files.read_lines(path), has_header=has_header, skip_short=skip_short
    )


def _split_at_tabs(
    path: str, lines: Iterable[tuple[int, str]], has_header: bool = True, skip_short: bool = False
) -> Table:
    rows = [(number, line.split("\t")) for number, line in lines if line]
    if rows and any("\r" in field for field in rows[0][1]):
        raise InputError(files.wrong_line_ends(f"{path}, line {rows[0][0]}"))
    if skip_short:
        whole = [(number, fields) for number, fields in rows if len(fields) >= len(rows[0][1])]
        if len(whole) < len(rows):
            print(f"{path}: skipped {len(rows) - len(whole)} incomplete rows", file=sys.stderr)
        rows = whole
    return _fields_table(path, rows, separators="cannot be in a text", has_header=has_header)


def _fields_table(
    path: str,
    rows: list[tuple[int, list[Any]]],
    separators: str,
    has_header: bool = True,
    unit: str = "line",
) -> Table:
    """Makes a table of the numbers of lines and their fields; `separators` is a rule for texts."""
    # Spreadsheets leave empty rows below the last one.
    while rows and all(field is None or field == "" for field in rows[-1][1]):
        rows.pop()
    if not rows:
        raise InputError(f"{path}: holds no rows")
    width = len(rows[0][1])
    header = rows.pop(0)[1] if has_header else []
    if not rows:
        raise InputError(f"{path}: holds no rows after the header row")
    for number, fields in rows:
        if fields == header:
            raise InputError(
                f"{path}, {unit} {number}: repeats the header row; expected it once, at the start"
            )
        if len(fields) != width:
            raise InputError(
                f"{path}, {unit} {number}: columns: received {len(fields)}, expected {width} as in the "
                f"first line; a separator {separators}"
            )
    numbers, values = zip(*rows, strict=True)
    names = tuple("" if name is None else str(name).strip() for name in header)
    return Table(path, names, rows=values, numbers=numbers, unit=unit, names_in="a header row with")


def _read_path(path: str) -> Table:
    if files.is_folder(path):
        return _read_as(_FOLDER, path, ())
    content = files.read_content(path)
    head = next(content, b"")
    return _read_as(_format_of(path, head), path, itertools.chain([head], content))


def _read_as(table_format: "TableFormat", path: str, content: Iterable[bytes]) -> Table:
    if table_format.extra:
        with name_place(path):
            check_extra(table_format.extra, *table_format.modules)
    return table_format.read(path, content)


def _read_json(path: str, content: Iterable[bytes]) -> Table:
    lines = files.decode_lines(content, path, files.decode_strictly)
    first = next(lines, (1, ""))
    lines = itertools.chain([first], lines)
    if first[1].lstrip().startswith("["):
        text = "\n".join(line for _, line in lines)
        values = files.parse_json(text, path, expected=_JSON_LAYOUT)
        table = _mappings_table(name=path, values=values, numbers=range(len(values)), unit="")
    else:
        filled = {number: line for number, line in lines if line.strip()}
        values = [
            files.parse_json(text=line, path=path, line=number, expected=_JSON_LAYOUT)
            for number, line in filled.items()
        ]
        table = _mappings_table(name=path, values=values, numbers=[*filled], unit="line")
    return dataclasses.replace(table, names_in="objects with")


def _read_csv(path: str, content: Iterable[bytes]) -> Table:
    lines = files.decode_lines(content, path, files.decode_strictly)
    first = next(lines, (1, ""))
    separator = next((candidate for candidate in _CSV_SEPARATORS if candidate in first[1]), ",")
    if separator != ",":
        warn(f"{path}: columns are separated by {_CSV_SEPARATORS[separator]}, not by commas")
    return _read_quoted(path, itertools.chain([first], lines), separator)


def _read_tsv(path: str, content: Iterable[bytes]) -> Table:
    """Reads a TSV file; quotes are those of RFC 4180 if all fields that begin with one say so."""
    lines = list(files.decode_lines(content, path, files.decode_strictly))
    rows = [line.split("\t") for _, line in lines if line]
    quoted = [field for row in rows for field in row if field.startswith('"')]
    are_closed = all(_QUOTED.fullmatch(field) for field in quoted)
    if are_closed or len({len(row) for row in rows}) > 1:
        table = _read_quoted(path, iter(lines), "\t")
        if not are_closed:
            warn(f"{path}: read quoted texts with tabs or ends of lines; {len(table.rows)} rows")
        return table
    warn(f"{path}: quotes are read as characters, since not all are closed in their column")
    return _split_at_tabs(path, lines)


def _read_quoted(path: str, lines: Iterator[tuple[int, str]], delimiter: str) -> Table:
    limit = csv.field_size_limit(_MAX_TEXT_LENGTH)
    reader = csv.reader((f"{line}\n" for _, line in lines), delimiter=delimiter, strict=True)
    rows, start = [], 1
    try:
        for fields in reader:
            if fields:
                rows.append((start, fields))
            start = reader.line_num + 1
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
    return _fields_table(path, rows, "needs quotes around it")


def _read_workbook(path: str, content: Iterable[bytes]) -> Table:
    rows = workbooks.read_workbook(path, b"".join(content))
    return _fields_table(path, rows, "is another cell", unit="row")


def _rows_table(path: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Makes a table of typed rows, which count from 1."""
    return _mappings_table(name=path, values=rows, numbers=range(1, 1 + len(rows)), unit="row")


def _mappings_table(name: str, values: Sequence[Any], numbers: Sequence[int], unit: str) -> Table:
    """Makes a table of mappings, which may differ in their keys."""
    table = Table(name, columns=(), rows=(), numbers=numbers, unit=unit)
    for number, value in zip(numbers, values, strict=True):
        if not isinstance(value, Mapping):
            expected = "an object in braces" if unit else "a mapping from columns to values"
            raise InputError(f"{table.place(number)}: expected {expected}")
    keys = dict.fromkeys(itertools.chain.from_iterable(values))
    rows = []
    for number, value in zip(numbers, values, strict=True):
        try:
            rows.append([decode(value.get(key)) for key in keys])
        except UnicodeDecodeError as error:
            reason = f"holds {error.object!r}, which is not UTF-8"
            raise InputError(f"{table.place(number)}: {reason}") from error
    return dataclasses.replace(table, columns=tuple(str(key).strip() for key in keys), rows=rows)


_Reader = Callable[[str, Iterable[bytes]], Table]


class TableFormat(NamedTuple):
    """A format of files with tables.

    Attributes:
        name: what messages and the documentation call it.
        suffixes: ends of the names of its files, in lower case, without those of compressed files.
        read: makes a table of the path and the decompressed content of a file.
        has_text_header: whether the first line is a header row in plain text.
        extra: the extra of this package that reading it needs, if any.
        modules: the modules of the extra.
        start: the first bytes of all its files, if it has some.
    """

    name: str
    suffixes: tuple[str, ...]
    read: _Reader
    has_text_header: bool = False
    extra: str | None = None
    modules: tuple[str, ...] = ()
    start: bytes | None = None


def _typed(read_rows: Callable[[str, bytes], Sequence[Mapping[str, Any]]]) -> _Reader:
    """Makes a reader of a function from the path and the content of a file to its rows."""
    return lambda path, content: _rows_table(path, read_rows(path, b"".join(content)))


_CSV = TableFormat("CSV", (".csv",), _read_csv, has_text_header=True)
_TSV = TableFormat("TSV", (".tsv",), _read_tsv, has_text_header=True)
_JSON = TableFormat("JSON lines", JSON_SUFFIXES, _read_json)
# The formats of files.
TABLE_FORMATS = (
    _CSV,
    _TSV,
    _JSON,
    TableFormat(
        "Parquet",
        (".parquet",),
        _typed(arrow.read_parquet),
        extra="parquet",
        modules=("pyarrow",),
        start=b"PAR1",
    ),
    TableFormat("Excel", (".xlsx",), _read_workbook, extra="xlsx", modules=("openpyxl",)),
)
_FOLDER = TableFormat(
    "folder of datasets",
    (),
    lambda path, content: _rows_table(path, arrow.read_folder(path)),
    extra="parquet",
    modules=("pyarrow",),
)


def table_format_names() -> str:
    """Lists the formats of files, for help and documentation."""
    *names, last = (one.name for one in TABLE_FORMATS)
    return f"{', '.join(names)} or {last}"


def _format_of_name(path: str) -> TableFormat | None:
    suffix = suffix_of(path)
    return next((one for one in TABLE_FORMATS if suffix in one.suffixes), None)


def _format_of(path: str, head: bytes) -> TableFormat:
    """Returns the format of a file, which begins with `head`."""
    for table_format in TABLE_FORMATS:
        if table_format.start and head.startswith(table_format.start):
            return table_format
    if suffix_of(path):
        return _format_of_name(path) or _TSV
    line = head.partition(b"\n")[0].removeprefix(codecs.BOM_UTF8).strip()
    if line.startswith((b"{", b"[")):
        return _JSON
    return _CSV if b"," in line and b"\t" not in line else _TSV


def _read_memory(source: Any, name: str) -> Table:
    if isinstance(source, Mapping):
        raise InputError(
            f"{name}: received a mapping with {', '.join(map(str, source))}; expected a list of "
            "dictionaries or, of several data sets, one"
        )
    if hasattr(source, "with_format") and hasattr(source, "__len__"):  # a datasets.Dataset
        rows = arrow.to_mappings(source.with_format("arrow")[:])
        return _mappings_table(name, values=rows, numbers=range(len(rows)), unit="")
    if hasattr(source, "columns") and hasattr(source, "iloc"):  # a pandas DataFrame
        source = source.to_dict("records")
        while source and all(map(is_missing, source[-1].values())):
            source.pop()
    if isinstance(source, bytes) or not isinstance(source, Sequence):
        raise InputError(
            f"{name}: received {type(source).__name__}; expected a path, a pandas DataFrame, a "
            "datasets.Dataset or a list of dictionaries"
        )
    return _mappings_table(name, values=source, numbers=range(len(source)), unit="")
