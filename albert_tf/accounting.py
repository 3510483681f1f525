"""Accounts for what a folder of another library holds: everything is known, or refused by name.

`albert_tf.known_files` lists what is known. The check is made where a file is read, of all of its keys,
so that no reader can pass over one.
"""

import fnmatch
import os
from collections.abc import Iterable, Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.known_files import FILES, Rows

_SHOWN_CHARACTERS = 60
# Of the names under which Keras registers KerasHub's classes; KerasNLP is its former name.
_KERAS_HUB_PACKAGES = ("keras_hub>", "keras_nlp>")


def account_for(values: Any, rows: Rows, place: str = "") -> Mapping[str, Any]:
    """Returns an object of a JSON file, whose keys all have rows and values that these accept.

    Args:
        values: what the file says.
        rows: the known keys.
        place: begins messages: the path of the file, or where in the file the object stands.

    Raises:
        InputError: it is no object, has an unknown key, or a value that changes what a model computes.
    """
    place = f"{place}: " if place else ""
    for key, value in check_object(values, place).items():
        if value is None:
            continue
        row = rows.get(key)
        if row is None:
            raise InputError(
                f"{place}key {shown(key)} is {shown(value)}, and not known: it may change what the model "
                "computes; expected only those of albert_tf/known_files.py and known_modules.py; remove "
                "it if it has no effect"
            )
        check_value(key, value, row.accepted, place)
    return values


def check_object(values: Any, place: str = "") -> Mapping[str, Any]:
    """Returns an object of a JSON file; raises an `InputError` if it is none."""
    if not isinstance(values, Mapping):
        raise InputError(f"{place}received {shown(values)}; expected an object")
    return values


def check_value(key: str, value: Any, accepted: tuple[Any, ...] | None, place: str = "") -> None:
    """Raises an `InputError` if a key has another value than those accepted; None accepts all."""
    if accepted is not None and value not in accepted:
        expected = " or ".join(map(_as_json, accepted))
        raise InputError(f"{place}key {shown(key)} is {shown(value)}; only {expected} is supported")


def account_for_files(folder: str, names: Iterable[str]) -> None:
    """Raises an `InputError` if one of the files of a folder would change what its model computes."""
    for name in names:
        for pattern, row in FILES.items():
            if row.accepted is not None and fnmatch.fnmatchcase(name, pattern):
                raise InputError(f"{os.path.join(folder, name)}: not supported: {row.reason}")


def is_keras_hub(values: Any) -> bool:
    """Returns whether the content of a JSON file describes a model or a tokenizer of KerasHub."""
    registered = values.get("registered_name") if isinstance(values, Mapping) else None
    return isinstance(registered, str) and registered.startswith(_KERAS_HUB_PACKAGES)


def shown(value: Any) -> str:
    """Returns a value for a message of one line."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _as_json(value: Any) -> str:
    return "null" if value is None else repr(value)
