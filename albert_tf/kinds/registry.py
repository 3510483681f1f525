"""The table of all kinds, also those of other packages, with their file in a folder and their flags."""

import dataclasses
import importlib.metadata
import os
import typing
from collections.abc import Iterable, Sequence
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError, name_place
from albert_tf.kinds.kind import KIND_FILE, Kind
from albert_tf.options import option

KINDS: dict[str, type[Kind]] = {}

# Group of the entry points by which other packages offer kinds.
_GROUP = "albert_tf.kinds"


def register(kind: type[Kind]) -> type[Kind]:
    """Makes a kind known under its name, to `run_classifier.py`, `albert_tf.load` and the exporter."""
    KINDS[kind.name] = kind
    return kind


def load_kinds() -> dict[str, type[Kind]]:
    """Returns all kinds, also those that installed packages offer as entry points `albert_tf.kinds`."""
    for entry in importlib.metadata.entry_points(group=_GROUP):
        if entry.name not in KINDS:
            register(entry.load())
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


def option_fields(kind: type[Kind]) -> dict[str, dataclasses.Field]:
    """Returns the fields of a kind that are flags, too, by name."""
    fields = dataclasses.fields(kind)
    return {field.name: field for field in fields if "description" in field.metadata}


def with_kind_options(options_class: type, kinds: Iterable[type[Kind]]) -> type:
    """Returns a dataclass of options that has those of kinds, too, but for those that it has already.

    They are None unless they are given; a kind has the defaults. Its `OF_KINDS` names for each of them
    the kinds that have it.
    """
    kinds = list(kinds)
    own = {field.name for field in dataclasses.fields(options_class)}
    having: dict[str, list[type[Kind]]] = {}
    for kind in kinds:
        for name in option_fields(kind).keys() - own:
            having.setdefault(name, []).append(kind)
    return dataclasses.make_dataclass(
        options_class.__name__.removeprefix("_"),
        [
            (name, typing.get_type_hints(of[0])[name] | None, _optional(name, of, len(kinds)))
            for name, of in sorted(having.items())
        ],
        bases=(options_class,),
        namespace={
            "OF_KINDS": {name: tuple(kind.name for kind in of) for name, of in having.items()},
            "__doc__": options_class.__doc__,
            "__module__": options_class.__module__,
        },
        frozen=True,
        kw_only=True,
    )


def _optional(name: str, having: Sequence[type[Kind]], among: int) -> Any:
    """Returns an option of one or more `among` so many kinds as one that may be left out."""
    descriptions: dict[str, list[str]] = {}
    for kind in having:
        field = option_fields(kind)[name]
        default = "" if field.default is None else f" Default: {field.default}."
        descriptions.setdefault(field.metadata["description"] + default, []).append(kind.name)
    described = (
        f"Of {' and '.join(names)}: {description}" if among > 1 else description
        for description, names in descriptions.items()
    )
    bounds = {key: field.metadata[key] for key in ("least", "most")}
    return option(" ".join(described), None, **bounds)
