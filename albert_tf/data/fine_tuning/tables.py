r"""Reads rows with named columns from whatever holds them: files, and tables in memory.

The format of a file is that of its name, without `.gz` or `.zst`: `.csv`, `.jsonl` (also `.ndjson` and
`.json`), `.parquet`, and tab-separated values for all others. CSV and TSV follow RFC 4180: a
quoted text may hold separators, line ends and doubled quotes. A folder is one that `save_to_disk` of
`datasets` wrote.
"""

import contextlib
import csv
import dataclasses
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining.input_files import decompress
from albert_tf.errors import InputError
from albert_tf.options import option

_COMPRESSED = (".gz", ".zst")
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_PARQUET = ".parquet"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """The columns that the user names; others are found by their usual names."""

    text_column: str | None = option(
        "Column of the text, or of the first text of a pair. Default: the one with a usual name.",
        None,
    )
    text_pair_column: str | None = option("Column of the second text of a pair.", None)
    label_column: str | None = option("Column of the label.", None)


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows with named columns.

    Attributes:
        name: file or argument, for messages.
        columns: names of the columns; empty for a file without a header row.
        rows: values of each row: text or, of typed sources, anything else, `None` for none.
        numbers: number of each row, as messages and ids have it.
        unit: what the numbers count: `line`, `row`, or nothing for places in a list.
        names: the columns that the user names.
        quoted: whether quotes have a meaning.
    """

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    numbers: Sequence[int]
    unit: str = "line"
    names: ColumnNames = ColumnNames()
    quoted: bool = True

    @classmethod
    def read(cls, source: Any, name: str = "data", names: ColumnNames | None = None) -> Self:
        """Reads any source.

        Args:
            source: a path, a pandas DataFrame, a `datasets.Dataset`, a sequence of mappings, or a table.
            name: what messages call a source in memory.
            names: the columns that the user names.
        """
        if isinstance(source, Table):
            return source
        if isinstance(source, str | os.PathLike):
            table = _read_path(os.fspath(source))
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
    suffix = _suffix(path)
    return suffix in (".csv", ".tsv", _PARQUET, *_JSON_LINES) or tf.io.gfile.isdir(path)


def is_missing(value: Any) -> bool:
    """Returns whether a value stands for none: `None`, NaN, or pandas's `NA` or `NaT`."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas's NA has no truth value, and neither has an array
        return not hasattr(value, "__len__")


def as_text(value: Any) -> str:
    """Returns a value as text, a whole number without a fraction."""
    if isinstance(value, str):
        return value
    is_whole = hasattr(value, "is_integer") and value.is_integer()
    return str(int(value)) if is_whole and not isinstance(value, bool) else str(value)


def read_unquoted(path: str, has_header: bool) -> Table:
    """Reads a file whose rows are split at tabs, as in the GLUE files: quotes have no meaning."""
    numbered = [(number, line.split("\t")) for number, line in files.read_lines(path) if line]
    if numbered and any("\r" in field for field in numbered[0][1]):
        raise InputError(_wrong_line_ends(f"{path}, line {numbered[0][0]}"))
    return _delimited(path, numbered, has_header, quoted=False)


def _delimited(path: str, numbered: list, has_header: bool = True, quoted: bool = True) -> Table:
    """Makes a table of (number of line, fields)."""
    if not numbered:
        raise InputError(f"{path}: holds no rows")
    header = tuple(numbered.pop(0)[1]) if has_header else ()
    if not numbered:
        raise InputError(f"{path}: holds no rows after the header row")
    for number, fields in numbered:
        if tuple(fields) == header:
            raise InputError(
                f"{path}, line {number}: repeats the header row; expected it once, at the start"
            )
    numbers, rows = zip(*numbered, strict=True)
    return Table(path, header, rows, numbers, quoted=quoted)


def _wrong_line_ends(place: str) -> str:
    return rf"{place}: received lines that end in \r; expected \n or \r\n"


def _suffix(path: str) -> str:
    stem, suffix = os.path.splitext(path)
    return os.path.splitext(stem)[1] if suffix in _COMPRESSED else suffix


def _read_path(path: str) -> Table:
    if tf.io.gfile.isdir(path):
        return _read_folder(path)
    suffix = _suffix(path)
    if suffix == _PARQUET:
        return _read_parquet(path)
    lines = files.decode_lines(decompress(files.read_chunks(path), path), path, _decode)
    if suffix in _JSON_LINES:
        return _read_json_lines(path, lines)
    return _read_delimited(path, lines, "," if suffix == ".csv" else "\t")


def _decode(line: bytes, place: str) -> str:
    if place.endswith(", line 1") and line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{place}: the file is UTF-16; expected UTF-8")
    return files.decode_strictly(line, place)


def _read_delimited(path: str, lines: Iterator[tuple[int, str]], delimiter: str) -> Table:
    reader = csv.reader((f"{line}\n" for _, line in lines), delimiter=delimiter, strict=True)
    numbered, start = [], 1
    try:
        for fields in reader:
            if fields:
                numbered.append((start, fields))
            start = reader.line_num + 1
    except csv.Error as error:
        place = f"{path}, line {start}"
        if "new-line" in str(error):
            raise InputError(_wrong_line_ends(place)) from error
        reason = str(error).replace("\t", "tab")
        raise InputError(
            f"{place}: {reason}; expected quotes around a text that begins with a quote, and each quote "
            'in it twice: ""'
        ) from error
    return _delimited(path, numbered)


def _read_json_lines(path: str, lines: Iterator[tuple[int, str]]) -> Table:
    values, numbers = [], []
    for number, line in lines:
        if line.strip():
            values.append(files.parse_json(line, path, number))
            numbers.append(number)
    return _of_mappings(path, values, numbers, "line")


def _of_mappings(name: str, values: Sequence[Any], numbers: Sequence[int], unit: str) -> Table:
    """Makes a table of mappings, which may differ in their keys."""
    table = Table(name, (), (), numbers, unit)
    for number, value in zip(numbers, values, strict=True):
        if not isinstance(value, Mapping):
            expected = "an object in braces" if unit else "a mapping from columns to values"
            raise InputError(f"{table.place(number)}: expected {expected}")
    columns = tuple(dict.fromkeys(itertools.chain.from_iterable(values)))
    rows = [[value.get(column) for column in columns] for value in values]
    return dataclasses.replace(table, columns=columns, rows=rows)


def _read_memory(source: Any, name: str) -> Table:
    if isinstance(source, Mapping):
        raise InputError(
            f"{name}: holds the parts {', '.join(map(str, source))}; expected one of them"
        )
    if hasattr(source, "features") and hasattr(source, "column_names"):  # a datasets.Dataset
        labels = {
            column: getattr(getattr(feature, "feature", feature), "names", None)
            for column, feature in source.features.items()
        }
        return _of_columns(name, source.with_format(None)[:], labels, "")
    if hasattr(source, "columns") and hasattr(source, "to_dict"):  # a pandas DataFrame
        return _of_columns(name, source.to_dict("list"), {}, "")
    if isinstance(source, bytes) or not isinstance(source, Sequence):
        raise InputError(
            f"{name}: received {type(source).__name__}; expected a path, a pandas DataFrame, a "
            "datasets.Dataset or a list of dictionaries"
        )
    return _of_mappings(name, source, range(len(source)), "")


def _of_columns(
    name: str, columns: Mapping[str, list], labels: Mapping[str, list[str] | None], unit: str
) -> Table:
    """Makes a table of columns; those with names of labels hold their numbers, -1 for none."""
    named = [
        column if labels.get(key) is None else [_label(value, labels[key]) for value in column]
        for key, column in columns.items()
    ]
    rows = list(zip(*named, strict=True))
    first = 1 if unit else 0
    return Table(name, tuple(map(str, columns)), rows, range(first, first + len(rows)), unit)


def _label(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_label(part, names) for part in value]
    if isinstance(value, int):
        return names[value] if value >= 0 else None
    return value


def _read_folder(path: str) -> Table:
    splits, state = (os.path.join(path, name) for name in ("dataset_dict.json", "state.json"))
    if tf.io.gfile.exists(splits):
        names = ", ".join(files.read_json(splits)["splits"])
        raise InputError(f"{path}: holds the parts {names}; expected the folder of one of them")
    if not tf.io.gfile.exists(state):
        raise InputError(
            f"{path}: a folder; expected a file, or what save_to_disk of datasets wrote"
        )
    arrow = _import_arrow(path)
    parts = []
    for entry in files.read_json(state)["_data_files"]:
        part = os.path.join(path, entry["filename"])
        with _explain_arrow(part, arrow):
            parts.append(arrow.ipc.open_stream(files.read_bytes(part)).read_all())
    return _of_arrow(path, arrow.concat_tables(parts))


def _read_parquet(path: str) -> Table:
    arrow = _import_arrow(path)
    import pyarrow.parquet

    content = b"".join(decompress(files.read_chunks(path), path))
    with _explain_arrow(path, arrow):
        return _of_arrow(path, pyarrow.parquet.read_table(arrow.BufferReader(content)))


def _import_arrow(path: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{path}: reading it needs the package pyarrow: pip install pyarrow"
        ) from error
    return pyarrow


@contextlib.contextmanager
def _explain_arrow(path: str, arrow: Any) -> Iterator[None]:
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read: {files.reason(error)}") from error


def _of_arrow(path: str, table: Any) -> Table:
    """Makes a table of Arrow's; `datasets` keeps the names of labels in the metadata of the schema."""
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    features = about.get("info", {}).get("features", {})
    labels = {name: _label_names(feature) for name, feature in features.items()}
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return _of_columns(path, columns, labels, "row")


def _label_names(feature: Any) -> list[str] | None:
    """Returns the names of the labels of a column, or of its lists; None if it has none."""
    while isinstance(feature, Mapping) and "feature" in feature:
        feature = feature["feature"]
    if isinstance(feature, list):  # how earlier versions wrote lists
        feature = feature[0] if feature else None
    return feature.get("names") if isinstance(feature, Mapping) else None
