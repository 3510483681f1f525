"""Options: one frozen dataclass per task, in which each option is declared once.

A field holds the option's name, type, default, description and range. The command line makes a flag
from each field, and a run saves all of them next to its checkpoints. The parts that use an option,
such as the training loop, declare it in a dataclass of their own, which the task's dataclass extends.
"""

import dataclasses
from typing import Any, TypeVar

from albert_tf.errors import FlagError

_MAX_INT32 = 2**31 - 1

_Config = TypeVar("_Config")


def option(
    description: str,
    default: Any = dataclasses.MISSING,
    *,
    least: float | None = None,
    most: float = _MAX_INT32,
) -> Any:
    """Declares a dataclass field that the command line offers as a flag.

    Args:
        description: one sentence, shown by `--help`.
        default: default value. Without one, the flag is required.
        least: least value of a number. None accepts any value.
        most: greatest value, if `least` is given.
    """
    metadata = {"description": description, "least": least, "most": most}
    return dataclasses.field(default=default, metadata=metadata)


def check_ranges(options: Any) -> None:
    """Checks that each option is within the range of its declaration."""
    for field in dataclasses.fields(options):
        if field.metadata["least"] is not None:
            check_range(options, field.name, field.metadata["least"], field.metadata["most"])


def check_range(options: Any, name: str, least: float, most: float = _MAX_INT32) -> None:
    """Checks that an option is None or in [least, most].

    Args:
        options: dataclass instance.
        name: name of the option.
        least: least value.
        most: greatest value.
    """
    value = getattr(options, name)
    if value is None or least <= value <= most:
        return
    bound = f"at most {most}" if value > most else f"at least {least}"
    raise FlagError(f"--{name}={value}: expected {bound}")


def select(options: Any, config_class: type[_Config]) -> _Config:
    """Returns the config whose fields are among the options, e.g. `MaskingConfig`."""
    names = [field.name for field in dataclasses.fields(config_class)]
    return config_class(**{name: getattr(options, name) for name in names})


def flag_name(field: dataclasses.Field) -> str:
    """Returns the flag of a field: its name without the `_` that follows a reserved word."""
    return field.name.removesuffix("_")


def to_json_dict(options: Any) -> dict[str, Any]:
    """Returns the options as a dictionary that `json` can write, with tuples as lists."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(options).items()
    }
