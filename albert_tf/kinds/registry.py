"""The table of all kinds, and the file that describes a trained head."""

import dataclasses
import os
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.kinds.kind import KIND_FILE, Kind

KINDS: dict[str, type[Kind]] = {}


def register(kind: type[Kind]) -> type[Kind]:
    """Makes a kind a task of `run_classifier.py`, under its name."""
    KINDS[kind.name] = kind
    return kind


def read_kind(folder: str) -> Kind:
    """Reads what `write_kind` wrote.

    Raises:
        InputError: the file cannot be read, or does not describe a kind that there is.
    """
    path = os.path.join(folder, KIND_FILE)
    values = files.read_json(path)
    try:
        values = {name: _restored(value) for name, value in values.items()}
        return KINDS[values.pop("kind")](**values)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not as --do_train writes it: {error}") from error


def write_kind(folder: str, kind: Kind) -> None:
    """Writes the name and the fields of a kind as `task.json`."""
    files.write_json(os.path.join(folder, KIND_FILE), kind.to_dict())


def _restored(value: Any) -> Any:
    """Returns a value as it was before it was written, when lists were tuples."""
    return tuple(map(_restored, value)) if isinstance(value, list) else value


def option_fields(kind: str) -> list[dataclasses.Field]:
    """Returns the fields of a kind that are flags, too."""
    return [field for field in dataclasses.fields(KINDS[kind]) if "description" in field.metadata]
