"""The table of all kinds, also those of other packages, and their file in a folder."""

import dataclasses
import os
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError, name_place
from albert_tf.kinds.kind import KIND_FILE, Kind
from albert_tf.options.kinds import plug_ins

KINDS: dict[str, type[Kind]] = {}


def register(kind: type[Kind]) -> type[Kind]:
    """Makes a kind known under its name, to `run_classifier.py`, `albert_tf.load` and the exporter."""
    KINDS[kind.name] = kind
    return kind


def load_kinds() -> dict[str, type[Kind]]:
    """Returns all kinds, also those that installed packages offer as entry points `albert_tf.kinds`."""
    for name, kind in plug_ins().items():
        if name not in KINDS:
            register(kind)
    return KINDS


def find_kind(name: str) -> type[Kind]:
    """Returns the kind with a name."""
    kind = KINDS.get(name) or load_kinds().get(name)
    if kind is None:
        raise InputError(
            f"unknown kind '{name}'; expected {', '.join(KINDS)}, or one of an installed package; a kind "
            "of your own has to be imported first"
        )
    return kind


def read_kind(folder: str) -> Kind:
    """Reads the kind that `task.json` in a folder describes."""
    path = os.path.join(folder, KIND_FILE)
    values = files.read_json(path)
    if not isinstance(values, dict) or not isinstance(values.get("kind"), str):
        raise InputError(f"{path}: expected an object with the key 'kind', as --do_train writes it")
    with name_place(path):
        kind = find_kind(values.pop("kind"))
        known = [field.name for field in dataclasses.fields(kind)]
        for name in values:
            if name not in known:
                raise InputError(f"unknown key '{name}'; expected {', '.join(known)}")
        return kind(**{name: _restored(value) for name, value in values.items()})


def _restored(value: Any) -> Any:
    """Returns a value as it was before it was written, when lists were tuples."""
    return tuple(map(_restored, value)) if isinstance(value, list) else value
