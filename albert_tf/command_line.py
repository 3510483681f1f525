r"""What all commands and scripts share: flags, error messages, signals and exit codes.

The flags of a command are the fields of its task's options dataclass. A user's mistake prints one line
and exits with code 1, or 2 if the flags alone show it. SIGTERM ends a command with one line and exit code
0, Ctrl-C with one line and 130; training saves a checkpoint first.

Standard output keeps its encoding, but is UTF-8 in place of ASCII. A character that another encoding
lacks is written as JSON writes it, such as `\u0113`.
"""

import codecs
import contextlib
import dataclasses
import functools
import importlib
import inspect
import io
import logging
import os
import re
import signal
import sys
import textwrap
import typing
from collections.abc import Callable, Collection, Iterator, Sequence

import absl.logging
from absl import app, flags

from albert_tf._version import __version__
from albert_tf.errors import InputError, Preempted, ReportedError, StoppedError
from albert_tf.files import as_path
from albert_tf.options import option_groups, type_of_value
from albert_tf.pipes import copied_pipes
from albert_tf.start_up import (
    INTERRUPTED,
    INTERRUPTED_CODE,
    STOPPED,
    TURNED_ON_ONEDNN,
    command_name,
    fail,
    import_keras,
    quiet_start,
    say,
)

if typing.TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_USAGE_CODE = 2  # the convention of shells, for wrong flags

_HELP, _ALL_HELP = ("-h", "--help"), "--helpfull"


def run(
    options_class: type,
    task: Callable[[typing.Any], typing.Any] | str,
    description: str | None = None,
    main_flags: Collection[str] | None = None,
) -> None:
    """Parses the command line into an `options_class` and calls `task` with it. Does not return.

    Args:
        options_class: frozen dataclass whose fields are declared with `albert_tf.options.option`. If it
            has a class method `from_flags`, that makes the options of the flags.
        task: function to call, or name of a module whose function `run` to call. The module is imported
            after the flags are parsed, so that help and mistakes in flags do not wait for it.
        description: what `--help` says above the flags, a docstring in which `{command}` stands for the
            command as it was called; by default that of the main module.
        main_flags: the flags that most runs need, which `--help` shows; `--helpfull` shows all. Default:
            all.
    """
    sys.stdout = _StandardOutput.open()
    if sys.stderr is None:  # closed by the shell
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    with _one_line_errors():
        asked = [
            argument for argument in sys.argv[1:] if argument in (*_HELP, _ALL_HELP, "--version")
        ]
        if "--version" in asked:
            print(f"albert_tf {__version__}")
        elif asked:
            shown = None if _ALL_HELP in asked else main_flags
            text = description or sys.modules["__main__"].__doc__ or ""
            print("\n".join(_help_lines(options_class, text, shown)))
    if asked:
        sys.exit()
    define_flags(options_class)
    app.run(lambda argv: _run_task(options_class, task), flags_parser=_parse_flags)


# Name of the handler of characters that the encoding of standard output lacks.
_ESCAPES = "albert_tf.escapes"


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Returns escapes of JSON for what cannot be encoded."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return re.sub("....", r"\\u\g<0>", units), error.end


class _StandardOutput(io.FileIO):
    """Standard output whose errors, such as a full disk, are reported in one line."""

    @classmethod
    def open(cls) -> io.TextIOWrapper:
        """Returns a text file to take the place of `sys.stdout`."""
        before = sys.stdout
        if before is None:  # closed by the shell
            return open(os.devnull, "w")
        codecs.register_error(_ESCAPES, _escape)
        is_ascii = codecs.lookup(before.encoding).name == "ascii"
        return io.TextIOWrapper(
            io.BufferedWriter(cls(before.fileno(), "wb", closefd=False)),
            "utf-8" if is_ascii else before.encoding,
            _ESCAPES,
            line_buffering=bool(before.line_buffering),
        )

    def write(self, content: "ReadableBuffer") -> int:
        """Writes bytes, and returns their number."""
        try:
            return super().write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StoppedError(f"standard output: cannot be written: {error.strerror}") from error


def _help_lines(
    options_class: type, description: str, main_flags: Collection[str] | None
) -> Iterator[str]:
    """Yields the lines of `--help`, with the main flags, or of `--helpfull`, with all flags in groups."""
    name = command_name()
    command = f"python {name}" if name.endswith(".py") else name
    yield inspect.cleandoc(description).format(command=command)
    groups = list(option_groups(options_class))
    if main_flags is not None:
        fields = {field.name: field for _, group in groups for field in group}
        groups = [("The flags that most runs need", [fields[name] for name in main_flags])]
        more = len(fields) - len(main_flags)
    types_of = typing.get_type_hints(options_class)
    for title, group in groups:
        yield f"\n{title}:"
        for field in group:
            yield f"  --{_signature(field, types_of[field.name])}"
            text, default = field.metadata["description"], field.default
            if default not in (dataclasses.MISSING, None, ()) and default is not False:
                text += f" Default: {'true' if default is True else default}."
            yield textwrap.fill(text, 96, initial_indent=" " * 6, subsequent_indent=" " * 6)
    if main_flags is not None and more:
        yield f"\n{command} --helpfull shows {more} more."


def _signature(field: dataclasses.Field, kind: typing.Any) -> str:
    """Returns a flag's name and what values it has."""
    kind = type_of_value(kind)
    if kind is bool:
        return f"[no]{field.name}"
    if typing.get_origin(kind) is typing.Literal:
        return f"{field.name}={'|'.join(typing.get_args(kind))}"
    values = {int: "INTEGER", float: "NUMBER", str: "TEXT", tuple[int, ...]: "INTEGER,INTEGER,..."}
    return f"{field.name}={values.get(kind, 'TEXT,TEXT,...')}"


def define_flags(options_class: type) -> None:
    """Defines one absl flag for each field of a dataclass."""
    types_of = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        _define_flag(field, types_of[field.name])


class _IntegerList(flags.ArgumentParser):
    """Reads integers that are separated by commas."""

    def parse(self, argument: str) -> list[int]:
        return [int(number) for number in argument.split(",")]


def _define_flag(field: dataclasses.Field, kind: typing.Any) -> None:
    required = field.default is dataclasses.MISSING
    default: typing.Any = None if required else field.default
    name, description = field.name, field.metadata["description"]
    kind = type_of_value(kind)
    if typing.get_origin(kind) is typing.Literal:
        values = list(typing.get_args(kind))
        flags.DEFINE_enum(name, default, values, description)
    elif kind == tuple[str, ...]:
        flags.DEFINE_list(name, None if default is None else list(default), description)
    else:
        defines: dict[typing.Any, Callable[..., typing.Any]] = {
            bool: flags.DEFINE_bool,
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
            str: flags.DEFINE_string,
            tuple[int, ...]: functools.partial(flags.DEFINE, _IntegerList()),
        }
        defines[kind](name, default, description)
    if required:
        flags.mark_flag_as_required(name)


def _parse_flags(argv: Sequence[str]) -> list[str]:
    try:
        rest = flags.FLAGS(argv)
        if len(rest) > 1:
            raise flags.Error(f"unexpected argument '{rest[1]}'; every option is a --flag=value")
    except flags.Error as error:
        _fail(error, _USAGE_CODE)
    return rest


def _run_task(options_class: type, task: Callable[[typing.Any], typing.Any] | str) -> None:
    if isinstance(task, str):
        with quiet_start():
            import_keras()
            run: Callable[[typing.Any], typing.Any] = importlib.import_module(task).run
    else:
        run = task
    # TensorFlow logs how long each checkpoint took, and Dask has levels of its own.
    absl.logging.set_verbosity(absl.logging.WARNING)
    absl.logging.get_absl_handler().setLevel("WARNING")
    # It warns, with tracebacks, of damaged files that are not needed.
    logging.getLogger("tensorflow").setLevel("ERROR")
    signal.signal(signal.SIGTERM, _preempt)
    try:
        with _one_line_errors():
            try:
                make = getattr(options_class, "from_flags", options_class)
                options = make(**_flag_values(options_class))
            except InputError as error:
                _fail(error, _USAGE_CODE)
            if TURNED_ON_ONEDNN and "tensorflow" in sys.modules:
                say("using oneDNN, which is faster; TF_ENABLE_ONEDNN_OPTS=0 turns it off")
            with copied_pipes():
                run(options)
    finally:
        # The process is about to exit.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Ends the process with one line, or quietly if nobody reads its output, instead of a traceback."""
    try:
        yield
        sys.stdout.flush()
    except ReportedError as error:
        _discard_output()
        _fail(error)
    except Preempted as end:
        say(str(end))
        sys.exit(end.exit_code)
    except BrokenPipeError:
        _discard_output()
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        say(INTERRUPTED)
        sys.exit(INTERRUPTED_CODE)


def _discard_output() -> None:
    """Discards what cannot be written to standard output, which Python would try again at its exit."""
    try:
        sys.stdout.flush()
    except (BrokenPipeError, StoppedError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _preempt(number: int, frame: object) -> typing.NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process immediately
    raise Preempted(STOPPED)


def _flag_values(options_class: type) -> dict[str, typing.Any]:
    values = {}
    for field in dataclasses.fields(options_class):
        value = flags.FLAGS[field.name].value
        if value == "" or (isinstance(value, list) and "" in value):
            raise InputError(f"{field.name}: received an empty value; omit the flag for none")
        if isinstance(value, list):
            value = tuple(as_path(item) if isinstance(item, str) else item for item in value)
        values[field.name] = as_path(value) if isinstance(value, str) else value
    return values


def _fail(error: Exception, exit_code: int = 1) -> typing.NoReturn:
    """Ends the process with an error's message, in which an argument has the form of its flag."""
    message = str(error)
    if (argument := re.match(r"\w+(?=[=:])", message)) and argument[0] in flags.FLAGS:
        message = f"--{message}"
    fail(InputError(message), exit_code)
