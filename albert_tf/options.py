"""The options of a task: one frozen dataclass a task, one sentence an option.

A task's dataclass is the only place where an option has a name, a type, a default and a description:
the command line makes its flags from it, and a run saves it beside its checkpoints.
"""

import dataclasses
from typing import Any


def option(description: str, default: Any = dataclasses.MISSING) -> Any:
    """Declares a dataclass field that the command line offers as a flag.

    Args:
        description: one sentence, shown by `--help`.
        default: the value where the user gives none; without it the flag is required.
    """
    return dataclasses.field(default=default, metadata={"description": description})


def flag_name(field: dataclasses.Field) -> str:
    """Returns the name of the flag of a field: without the `_` after a name that Python reserves."""
    return field.name.removesuffix("_")


def to_json_dict(options: Any) -> dict[str, Any]:
    """Returns the options as a dictionary that `json` writes, tuples as lists."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(options).items()
    }
