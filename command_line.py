"""From flags to options: what all scripts share.

The flags of a script are the fields of its task's options dataclass. A user's mistake prints one line
and ends with exit code 1, or 2 where the flags alone show it. A run that is preempted (SIGTERM) saves and
ends with exit code 0.
"""

import contextlib
import dataclasses
import os
import signal
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags, logging

from albert_tf.errors import FlagError, InputError, Preempted
from albert_tf.options import flag_name


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Keeps TensorFlow's start-up notes from drowning what a script says: import it within.

    No setting reaches those that it writes while it is imported, so they go nowhere.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def run(options_class: type, task: Callable[[typing.Any], None]) -> None:
    """Parses the command line into an `options_class` and calls `task` with it. Does not return.

    Args:
        options_class: a frozen dataclass whose fields are declared with `albert_tf.options.option`.
        task: what the script does.
    """
    define_flags(options_class)
    app.run(lambda argv: _run_task(options_class, task), flags_parser=_parse_flags)


def define_flags(options_class: type) -> None:
    """Defines one absl flag for each field of a dataclass."""
    types_of = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        _define_flag(field, types_of[field.name])


def _define_flag(field: dataclasses.Field, kind: typing.Any) -> None:
    required = field.default is dataclasses.MISSING
    default = None if required else field.default
    name, description = flag_name(field), field.metadata["description"]
    # `int | None`, or the other type that `Literal[...] | None` has: a flag without a value is None
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        (kind,) = (choice for choice in typing.get_args(kind) if choice is not types.NoneType)
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        values = list(typing.get_args(kind))
        flags.DEFINE_enum(name, default, values, description)
    elif origin is tuple:
        flags.DEFINE_list(name, None if default is None else list(default), description)
    else:
        define = {
            bool: flags.DEFINE_bool,
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
            str: flags.DEFINE_string,
        }[kind]
        define(name, default, description)
    if required:
        flags.mark_flag_as_required(name)
    # `--help` shows the flags of the script, not those of this module.
    flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])


def _parse_flags(argv: Sequence[str]) -> list[str]:
    try:
        rest = flags.FLAGS(argv)
        if len(rest) > 1:
            raise flags.Error(f"unexpected argument '{rest[1]}'; every option is a --flag=value")
    except flags.Error as error:
        _fail(FlagError(str(error)))
    return rest


def _run_task(options_class: type, task: Callable[[typing.Any], None]) -> None:
    # TensorFlow tells the log what every checkpoint's writing took.
    logging.set_verbosity(logging.WARNING)
    try:
        task(options_class(**_flag_values(options_class)))
    except InputError as error:
        _fail(error)
    except Preempted as end:
        print(f"{_script_name()}: {end}", file=sys.stderr)
    except BrokenPipeError:
        # Who reads the answers has read enough. What Python has not yet written goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        print(f"{_script_name()}: interrupted", file=sys.stderr)
        sys.exit(130)  # the shells' code for an interrupt: 128 + SIGINT


def _flag_values(options_class: type) -> dict[str, typing.Any]:
    values = {}
    for field in dataclasses.fields(options_class):
        value = flags.FLAGS[flag_name(field)].value
        if value == "" or (isinstance(value, list) and "" in value):
            raise FlagError(
                f"--{flag_name(field)}: received an empty value; leave the flag out for none"
            )
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return values


def _fail(error: InputError) -> typing.NoReturn:
    message = " ".join(str(error).split())
    print(f"{_script_name()}: error: {message}", file=sys.stderr)
    sys.exit(error.exit_code)


def _script_name() -> str:
    """Returns the script's file name; where it stands for its folder, as with `python -m`, that one's."""
    folder, name = os.path.split(sys.argv[0])
    return os.path.basename(folder) if name == "__main__.py" else name
