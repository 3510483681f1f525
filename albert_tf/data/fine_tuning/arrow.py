"""Reads the rows of Arrow's tables: Parquet files, and what `datasets` has and writes.

`tables` checks that pyarrow is installed.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError


def read_parquet(path: str, content: bytes) -> list[dict[str, Any]]:
    """Returns the rows of a Parquet file."""
    with _arrow(path) as arrow:
        return to_mappings(arrow.parquet.read_table(arrow.BufferReader(content)))


def read_folder(path: str) -> list[dict[str, Any]]:
    """Returns the rows of a folder that `save_to_disk` of `datasets` wrote."""
    splits, state = (os.path.join(path, name) for name in ("dataset_dict.json", "state.json"))
    if files.exists(splits):
        names = ", ".join(files.read_json(splits)["splits"])
        raise InputError(f"{path}: holds the parts {names}; expected the folder of one of them")
    if not files.exists(state):
        raise InputError(
            f"{path}: a folder; expected a file, or what save_to_disk of datasets wrote"
        )
    parts = []
    for entry in files.read_json(state)["_data_files"]:
        part = os.path.join(path, entry["filename"])
        with _arrow(part) as arrow:
            parts.append(arrow.ipc.open_stream(files.read_bytes(part)).read_all())
    return to_mappings(arrow.concat_tables(parts))


@contextlib.contextmanager
def _arrow(path: str) -> Iterator[Any]:
    """Yields pyarrow, whose errors name the file."""
    import pyarrow
    import pyarrow.parquet

    try:
        yield pyarrow
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read: {files.reason(error)}") from error


def to_mappings(table: Any) -> list[dict[str, Any]]:
    """Returns the rows of a table; `datasets` keeps the names of labels in the metadata of its schema."""
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    rows = table.to_pylist()
    for column, feature in about.get("info", {}).get("features", {}).items():
        names = _label_names(feature)
        if names and column in table.column_names:
            for row in rows:
                row[column] = _label(row[column], names)
    return rows


def _label_names(feature: Any) -> list[str] | None:
    """Returns the names of the labels of a column, or of its lists; None if it has none."""
    if isinstance(feature, list):  # how earlier versions wrote lists
        return _label_names(next(iter(feature), None))
    if not isinstance(feature, dict):
        return None
    is_label = feature.get("_type") == "ClassLabel"
    return feature["names"] if is_label else _label_names(feature.get("feature"))


def _label(value: Any, names: Sequence[str]) -> Any:
    """Returns the name of a label's number, None for -1; of a list, the names."""
    if isinstance(value, list):
        return [_label(part, names) for part in value]
    if not isinstance(value, int):
        return value
    return names[value] if value >= 0 else None
