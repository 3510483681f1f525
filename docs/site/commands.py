"""Writes a page of the site for each command of the package: its flags, from the options dataclass.

Usage:
    python docs/site/commands.py OUTPUT_FOLDER
"""

import dataclasses
import importlib.metadata
import inspect
import pathlib
import re
import sys
import textwrap
import tomllib
import types
import typing
from collections.abc import Callable, Iterator
from unittest import mock

_ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(_ROOT))

from albert_tf import command_line  # noqa: E402
from albert_tf.options import option_groups  # noqa: E402

_VALUES = {str: "text", int: "integer", float: "number", bool: "boolean", tuple: "list"}


def main() -> None:
    """Writes the pages."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    for name, target in project["scripts"].items():
        function = importlib.metadata.EntryPoint(name, target, "console_scripts").load()
        (folder / f"{name}.md").write_text("\n".join(_page(name, function)) + "\n")


def _page(name: str, function: Callable[[], None]) -> Iterator[str]:
    with mock.patch.object(command_line, "run") as run:
        function()
    options_class = run.call_args.args[0]
    description, _, usage = inspect.cleandoc(function.__doc__).partition("\n\nUsage:\n")
    yield f"# {name}\n\n{description}\n"
    yield f"```text\n{textwrap.dedent(usage).format(command=name)}\n```\n"
    yield f"In a checkout, `python {_script(function)}` is the same command.\n"
    yield "Set a boolean flag with `--name`, unset it with `--noname`. Separate a list by commas.\n"
    kinds = typing.get_type_hints(options_class)
    for title, fields in option_groups(options_class):
        yield f"## {title}\n"
        for field in fields:
            yield _entry(field, kinds[field.name])


def _script(function: Callable[[], None]) -> str:
    call = f"commands.{function.__name__}()"
    return next(path.name for path in _ROOT.glob("*.py") if call in path.read_text())


def _entry(field: dataclasses.Field, kind: typing.Any) -> str:
    name = field.name
    facts = ", ".join(_facts(field, kind))
    # A flag in a sentence, such as --do_train
    description = re.sub(r"--\w+(=[\w-]+)?", r"`\g<0>`", field.metadata["description"])
    return f"`--{name}` {facts} {{: #{name} }}\n:   {description}\n"


def _facts(field: dataclasses.Field, kind: typing.Any) -> Iterator[str]:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        (kind,) = (choice for choice in typing.get_args(kind) if choice is not types.NoneType)
    if typing.get_origin(kind) is typing.Literal:
        yield "one of " + ", ".join(f"`{value}`" for value in typing.get_args(kind))
    else:
        yield _VALUES[typing.get_origin(kind) or kind]
    if bounds := field.metadata["bounds"]:
        yield bounds.describe()
    if field.default is dataclasses.MISSING:
        yield "required"
    elif field.default is True:
        yield "default true"
    elif field.default is not False and field.default not in (None, ()):
        yield f"default `{field.default}`"


if __name__ == "__main__":
    main()
