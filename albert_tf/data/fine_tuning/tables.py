r"""Reads rows with named columns from whatever holds them: files, and tables in memory.

`TABLE_FORMATS` lists the formats of files. Those with first bytes of their own are told by these, others
by the suffix of their name, without that of a compressed file; a name with an unknown suffix is that of
tab-separated values. A name without a suffix, such as that of a pipe, says nothing; then the first line
does. CSV follows RFC 4180: a quoted text may hold separators, line ends and doubled quotes. So does TSV
whose quotes are all closed; otherwise quotes are characters, as in GLUE's files. JSON is an object per
line, or a list of them. A folder is one that `save_to_disk` of `datasets` wrote. Workbooks begin like any
zip archive, so only their suffix tells them. `layouts` knows what other tools write in these formats.
"""

import codecs
import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.data.fine_tuning import arrow, delimited, workbooks
from albert_tf.data.fine_tuning.cells import decode, is_missing
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.data.fine_tuning.json_rows import read_json_rows
from albert_tf.data.fine_tuning.layouts import read_layout
from albert_tf.data.fine_tuning.layouts.fasttext import FASTTEXT_START, read_fasttext
from albert_tf.data.source_files import JSON_SUFFIXES, suffix_of
from albert_tf.errors import InputError, name_place, warn
from albert_tf.extras import check_extra
from albert_tf.file_kinds import PARQUET_START


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    name: str  # file or argument, for messages
    columns: tuple[str, ...]  # empty for rows without names
    rows: Sequence[Sequence[Any]]  # of text or, of typed sources, anything else, `None` for none
    numbers: Sequence[int]  # of the rows, as messages and ids have them
    unit: str = "line"  # what the numbers count: `line`, `row`, or nothing for places in a list
    names_in: str = "columns"  # what has the names of columns, for messages
    names: ColumnNames = dataclasses.field(default_factory=ColumnNames)
    # The same rows as they were before the layout of another tool was read, if it has one.
    unread: "Table | None" = None
    hidden: tuple[str, ...] = ()  # columns of labels that are not read, which is to be said
    is_rest: bool = False  # whether other rows of the same table have labels, and these have none

    @classmethod
    def read(cls, source: Any, name: str = "data", names: ColumnNames | None = None) -> "Table":
        """Reads a path, a pandas DataFrame, a `datasets.Dataset`, or a sequence of mappings.

        Messages call a source in memory `name`. Layouts of other tools are read. A table is returned.
        """
        if isinstance(source, Table):
            return source
        names = names or ColumnNames()
        if isinstance(source, str | os.PathLike):
            table = _read_path(files.as_path(source), has_header=not names.header)
        else:
            table = _read_memory(source, name)
        table = dataclasses.replace(table, names=names)
        if names.header and table.rows:
            table = _name_columns(table)
        table = read_layout(table)
        if not table.rows:
            raise InputError(f"{table.name}: holds no rows")
        if not table.columns:
            expected = "an object in braces" if table.unit else "a mapping from columns to values"
            raise InputError(f"{table.place(table.numbers[0])}: expected {expected}")
        return table

    @classmethod
    def of_records(
        cls, name: str, records: Sequence[Any], numbers: Sequence[int], unit: str
    ) -> "Table":
        """Makes a table of mappings, which may differ in their keys, or of lists without names."""
        table = Table(name, columns=(), rows=(), numbers=numbers, unit=unit)
        are_lists = all(isinstance(record, list | tuple) for record in records)
        for number, record in zip(numbers, records, strict=True):
            if not (are_lists or isinstance(record, Mapping)):
                expected = "an object in braces" if unit else "a mapping from columns to values"
                raise InputError(f"{table.place(number)}: expected {expected}")
        keys = [] if are_lists else [*dict.fromkeys(itertools.chain.from_iterable(records))]
        rows = []
        for number, record in zip(numbers, records, strict=True):
            try:
                rows.append(decode(record if are_lists else [record.get(key) for key in keys]))
            except UnicodeDecodeError as error:
                reason = f"holds {error.object!r}, which is not UTF-8"
                raise InputError(f"{table.place(number)}: {reason}") from error
        return dataclasses.replace(
            table, columns=tuple(str(key).strip() for key in keys), rows=rows
        )

    def records(self) -> list[dict[str, Any]]:
        """Returns the rows as mappings from columns to cells."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def with_records(
        self, records: Sequence[Any], numbers: Sequence[int] | None = None, unit: str | None = None
    ) -> "Table":
        """Returns a table with the rows of mappings, by default numbered as they are here."""
        table = Table.of_records(
            self.name,
            records=records,
            numbers=self.numbers if numbers is None else numbers,
            unit=self.unit if unit is None else unit,
        )
        return dataclasses.replace(table, names=self.names)

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
    rows, rule, _ = delimited.split_at_tabs(path, files.read_lines(path), skip_short)
    return _fields_table(path, rows, rule, has_header)


def _name_columns(table: Table) -> Table:
    """Names the columns of a table without a header row, as the user says."""
    header, flag = table.names.header, f"--columns={table.names.columns}"
    if table.columns:
        raise InputError(
            f"{flag}: {table.name} has the columns {', '.join(table.columns)}; expected a table without "
            "names of columns"
        )
    for name in filter(None, header):
        if header.count(name) > 1:
            raise InputError(f"{flag}: received '{name}' twice; expected it once")
    for number, row in zip(table.numbers, table.rows, strict=True):
        if len(row) != len(header):
            raise InputError(
                f"{table.place(number)}: columns: received {len(row)}, expected {len(header)}: {flag}"
            )
    first = {str(cell).strip().lower() for cell in table.rows[0]}
    if len(first & {name.lower() for name in header}) >= min(2, len(header)):
        raise InputError(
            f"{table.place(table.numbers[0])}: is a header row; expected none beside {flag}"
        )
    return dataclasses.replace(table, columns=header)


def _fields_table(
    path: str,
    rows: list[tuple[int, list[Any]]],
    separators: str,
    has_header: bool,
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
        if has_header and fields == header:
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


def _read_path(path: str, has_header: bool) -> Table:
    if files.is_folder(path):
        return _read_as(_FOLDER, path, content=(), has_header=has_header)
    content = files.read_content(path)
    head = next(content, b"")
    return _read_as(
        _format_of(path, head),
        path,
        content=itertools.chain([head], content),
        has_header=has_header,
    )


def _read_as(
    table_format: "TableFormat", path: str, content: Iterable[bytes], has_header: bool
) -> Table:
    if table_format.extra:
        with name_place(path):
            check_extra(table_format.extra, *table_format.modules)
    return table_format.read(path, content, has_header)


def _read_json(path: str, content: Iterable[bytes], has_header: bool) -> Table:
    values, numbers, unit = read_json_rows(path, content)
    table = Table.of_records(path, records=values, numbers=numbers, unit=unit)
    return dataclasses.replace(table, names_in="objects with")


def _read_csv(path: str, content: Iterable[bytes], has_header: bool) -> Table:
    rows, rule, _ = delimited.read_csv(path, content)
    return _fields_table(path, rows, rule, has_header)


def _read_tsv(path: str, content: Iterable[bytes], has_header: bool) -> Table:
    rows, rule, has_open_quotes = delimited.read_tsv(path, content)
    table = _fields_table(path, rows, rule, has_header)
    if has_open_quotes:
        warn(f"{path}: read quoted texts with tabs or ends of lines; {len(table.rows)} rows")
    return table


def _read_workbook(path: str, content: Iterable[bytes], has_header: bool) -> Table:
    rows = workbooks.read_workbook(path, b"".join(content))
    return _fields_table(path, rows, "is another cell", has_header, unit="row")


def _read_fasttext(path: str, content: Iterable[bytes], has_header: bool) -> Table:
    lines = files.decode_lines(content, path, files.decode_strictly)
    print(f"{path}: read as {_FASTTEXT.name}", file=sys.stderr)
    numbers, records = zip(*read_fasttext(path, lines), strict=True)
    return Table.of_records(path, records=records, numbers=numbers, unit="line")


def _rows_table(path: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Makes a table of typed rows, which count from 1."""
    return Table.of_records(path, records=rows, numbers=range(1, 1 + len(rows)), unit="row")


_Reader = Callable[[str, Iterable[bytes], bool], Table]


class TableFormat(NamedTuple):
    """A format of files with tables.

    Attributes:
        name: what messages and the documentation call it.
        suffixes: ends of the names of its files, in lower case, without those of compressed files.
        read: makes a table of the path and the decompressed content of a file, given whether its first
            row is a header row if rows of the format have no names of their own.
        has_text_header: whether the first line is a header row in plain text.
        extra: the extra of this package that reading it needs, if any.
        modules: the modules of the extra.
        start: the first bytes of all its files, as a regular expression, if it has some.
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
    return lambda path, content, _: _rows_table(path, read_rows(path, b"".join(content)))


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
        start=PARQUET_START,
    ),
    TableFormat("Excel", (".xlsx",), _read_workbook, extra="xlsx", modules=("openpyxl",)),
)
_FOLDER = TableFormat(
    "folder of datasets",
    (),
    lambda path, content, _: _rows_table(path, arrow.read_folder(path)),
    extra="parquet",
    modules=("pyarrow",),
)
# Lines of text, whatever the name of the file says.
_FASTTEXT = TableFormat("fastText", (), _read_fasttext, start=FASTTEXT_START)


def table_format_names() -> str:
    """Lists the formats of files, for help and documentation."""
    *names, last = (one.name for one in TABLE_FORMATS)
    return f"{', '.join(names)} or {last}"


def _format_of_name(path: str) -> TableFormat | None:
    suffix = suffix_of(path)
    return next((one for one in TABLE_FORMATS if suffix in one.suffixes), None)


def _format_of(path: str, head: bytes) -> TableFormat:
    """Returns the format of a file, which begins with `head`."""
    for table_format in (*TABLE_FORMATS, _FASTTEXT):
        if table_format.start and re.match(table_format.start, head):
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
        if source.format["type"] == "custom":
            raise InputError(
                f"{name}: received a datasets.Dataset with a transform, which is not applied; expected "
                "one that `map` has transformed"
            )
        rows = arrow.to_mappings(source.with_format("arrow")[:])
        return Table.of_records(name, records=rows, numbers=range(len(rows)), unit="")
    if hasattr(source, "columns") and hasattr(source, "iloc"):  # a pandas DataFrame
        source = source.to_dict("records")
        while source and all(map(is_missing, source[-1].values())):
            source.pop()
    if isinstance(source, bytes) or not isinstance(source, Sequence):
        raise InputError(
            f"{name}: received {type(source).__name__}; expected a path, a pandas DataFrame, a "
            "datasets.Dataset or a list of dictionaries"
        )
    return Table.of_records(name, records=source, numbers=range(len(source)), unit="")
