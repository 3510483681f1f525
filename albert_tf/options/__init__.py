"""Options: one frozen dataclass per task, in which each option is declared once.

A field holds the option's name, type, default, description and range. The command line makes a flag
from each field, and a run saves all of them next to its checkpoints. The parts that use an option,
such as the training loop, declare it in a dataclass of their own, which the task's dataclass extends.
"""

import copy
import dataclasses
import inspect
import types
import typing
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from albert_tf.errors import InputError
from albert_tf.options.bounds import Bounds

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Config = TypeVar("_Config", bound="DataclassInstance")


def option(description: str, default: Any = dataclasses.MISSING, **bounds: float) -> Any:
    """Declares a dataclass field that the command line offers as a flag, required without a default.

    `description` is one sentence, shown by `--help`. `bounds` are the range of a number, the arguments of
    `Bounds`; without any, all values are accepted.
    """
    metadata = {"description": description, "bounds": Bounds(**bounds) if bounds else None}
    return dataclasses.field(default=default, metadata=metadata)


def check_ranges(options: Any) -> None:
    """Checks that each option is within the range of its declaration, if it has one."""
    for field in dataclasses.fields(options):
        check_range(field, getattr(options, field.name))


def check_range(field: dataclasses.Field, value: Any) -> None:
    """Checks that a value is within the range of a field's declaration by `option`, if it has one."""
    bounds = field.metadata.get("bounds")
    if bounds:
        bounds.check(field.name, value)


def select(options: Any, config_class: type[_Config]) -> _Config:
    """Returns the config whose fields are among the options, e.g. `MaskingConfig`."""
    names = [field.name for field in dataclasses.fields(config_class)]
    return config_class(**{name: getattr(options, name) for name in names})


def option_groups(options_class: type) -> Iterator[tuple[str, list[dataclasses.Field]]]:
    """Yields the options by the class that declares them, those of the task itself first.

    Yields:
        A title, and the fields of `options_class`, which may have other defaults than those of the group.
        Their descriptions include `DEFAULTS` of that class, texts about defaults that are found later.
    """
    fields = {field.name: copy.copy(field) for field in dataclasses.fields(options_class)}
    for name, default in getattr(options_class, "DEFAULTS", {}).items():
        metadata = fields[name].metadata
        described = f"{metadata['description']} Default: {default}."
        fields[name].metadata = types.MappingProxyType({**metadata, "description": described})
    for part in filter(dataclasses.is_dataclass, options_class.__mro__):
        bases = filter(dataclasses.is_dataclass, part.__bases__)
        inherited = {field.name for base in bases for field in dataclasses.fields(base)}
        own = [
            fields[field.name] for field in dataclasses.fields(part) if field.name not in inherited
        ]
        if own:
            is_own = part is options_class
            yield "Flags of this command" if is_own else _first_sentence(part), own


def _first_sentence(part: type) -> str:
    """Returns the first sentence of a class's docstring, without its full stop."""
    (first_line, *_) = (inspect.getdoc(part) or part.__name__).splitlines()
    return first_line.split(". ")[0].removesuffix(".")


def type_of_value(kind: Any) -> Any:
    """Returns the type of an option's value. Of `int | None` it is `int`: None stands for no value."""
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return kind
    (kind,) = (choice for choice in typing.get_args(kind) if choice is not types.NoneType)
    return kind


def to_json_dict(options: Any) -> dict[str, Any]:
    """Returns the options as a dictionary that `json` can write, with tuples as lists."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(options).items()
    }


def check_types(config: Any) -> None:
    """Checks that each field of a dataclass has a value of its type, and in its range if it has one."""
    types_of = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        check_type(field.name, getattr(config, field.name), types_of[field.name])
    check_ranges(config)


def check_type(name: str, value: Any, expected: Any) -> None:
    """Raises an `InputError` if the value of an argument has not the expected type."""
    if not _is_a(value, expected):
        is_class = isinstance(expected, type)
        shown = expected.__name__ if is_class else str(expected).replace("typing.", "")
        raise InputError(f"{name}={value!r}: expected {shown}")


def _is_a(value: Any, expected: Any) -> bool:
    """Returns whether a value has a type: a class, a union, a `Literal` or a tuple of any length."""
    origin, choices = typing.get_origin(expected), typing.get_args(expected)
    if origin is typing.Literal:
        return any(value == choice and type(value) is type(choice) for choice in choices)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(item, choices[0]) for item in value)
    if origin is not None:
        return any(_is_a(value, choice) for choice in choices)
    # In Python `True` is an `int`; a whole number may stand for another.
    if isinstance(value, bool):
        return expected is bool
    return isinstance(value, (int, float) if expected is float else expected)


# Names of the types in JSON.
_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number with a point",
    bool: "true or false",
    type(None): "null",
}


def check_layout(value: Any, layout: Any, path: str, place: str = "") -> None:
    """Raises an `InputError` if a value of JSON, or a part of it, has not the expected type.

    A layout is a type, a union of types, a list with the layout of its items, or a dictionary with those
    of its members, of which a name with "?" may be missing. `path` and `place` are for messages.
    """
    expected = _layout_types(layout)
    if type(value) not in expected:  # in Python `True` is an `int`
        received = _TYPE_NAMES.get(type(value), type(value).__name__)
        raise InputError(f"{path}: {place or 'it'} is {received}, expected {_names_of(expected)}")
    if isinstance(layout, list):
        for number, item in enumerate(value):
            check_layout(value=item, layout=layout[0], path=path, place=f"{place}[{number}]")
    if isinstance(layout, dict):
        for key, member_layout in layout.items():
            name = key.removesuffix("?")
            member_place = f"{place}.{name}".removeprefix(".")
            if name in value:
                check_layout(value=value[name], layout=member_layout, path=path, place=member_place)
            elif name == key:
                raise InputError(
                    f"{path}: {member_place} is missing, expected "
                    f"{_names_of(_layout_types(member_layout))}; received {', '.join(value) or 'nothing'}"
                )


def _layout_types(layout: Any) -> tuple[type, ...]:
    return typing.get_args(layout) or (layout if isinstance(layout, type) else type(layout),)


def _names_of(kinds: Iterable[type]) -> str:
    return " or ".join(_TYPE_NAMES[kind] for kind in kinds)
