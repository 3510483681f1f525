"""The table of all kinds, also those of other packages, and their file in a folder."""

import dataclasses
from typing import Any

from albert_tf.errors import InputError, name_place
from albert_tf.kinds.kind import Kind
from albert_tf.model_folder import ModelFolder
from albert_tf.options import check_layout
from albert_tf.options.kinds import plug_ins

KINDS: dict[str, type[Kind]] = {}


def register(kind: type[Kind]) -> type[Kind]:
    """Makes a kind known under its name, to `albert-classify`, `albert_tf.load` and the exporter."""
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


def read_kind(folder: str) -> Kind | None:
    """Returns the kind of the model in a folder; None if its config names none."""
    return kind_in(ModelFolder(folder))


def kind_in(folder: ModelFolder) -> Kind | None:
    """Returns the kind that the config of a folder names; None if it names none."""
    values, place = folder.own.get("kind"), f"{folder.config_file}: kind"
    if values is None:
        return None
    check_layout(values, {"kind": str}, place)
    folder.check_modules()
    with name_place(place):
        kind = find_kind(values["kind"])
        known = [field.name for field in dataclasses.fields(kind)]
        given = {name: value for name, value in values.items() if name != "kind"}
        for name in given:
            if name not in known:
                raise InputError(f"unknown key '{name}'; expected {', '.join(known)}")
        return kind(**{name: _restored(value) for name, value in given.items()})


def _restored(value: Any) -> Any:
    """Returns a value as it was before it was written, when lists were tuples."""
    return tuple(map(_restored, value)) if isinstance(value, list) else value
