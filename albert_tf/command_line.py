"""What all commands and scripts share: flags, error messages, signals and exit codes.

The flags of a command are the fields of its task's options dataclass. A user's mistake prints one line
and exits with code 1, or 2 if the flags alone show it. SIGTERM ends a command with one line and exit code
0, Ctrl-C with one line and 130; training saves a checkpoint first.
"""

# Slow imports come below, where signals are handled.
import contextlib
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from albert_tf.errors import FlagError, Preempted, ReportedError

_STOPPED = "stopped by SIGTERM; run the same command again"
_INTERRUPTED = "interrupted"
_INTERRUPTED_CODE = 128 + signal.SIGINT  # the convention of shells


def _command_name() -> str:
    """Returns the command's file name, or its folder's name if it was started with `python -m`."""
    folder, name = os.path.split(sys.argv[0])
    return os.path.basename(folder) if name == "__main__.py" else name


def _turn_on_onednn() -> bool:
    """Turns oneDNN on for processors with AVX2, and returns whether it did.

    TensorFlow itself uses oneDNN only on processors with instructions for neural networks, but it is
    faster with AVX2 too. The user's own setting is kept.
    """
    name = "TF_ENABLE_ONEDNN_OPTS"
    if name in os.environ or platform.machine() != "x86_64" or not os.path.exists("/proc/cpuinfo"):
        return False
    with open("/proc/cpuinfo") as file:
        flags_line = next((line for line in file if line.startswith("flags")), "")
    extensions = set(flags_line.split())
    # TensorFlow's rule: `DefaultOneDnnPolicy` in tensorflow/core/util/util.cc
    if extensions & {"avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"}:
        return False
    if "avx2" not in extensions:
        return False
    os.environ[name] = "1"
    return True


_TURNED_ON_ONEDNN = _turn_on_onednn()


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Keeps the start of a command quiet. Import TensorFlow and other slow modules in this context.

    TensorFlow's log level hides its information and warnings, except for those that it logs before the
    level is read. Ctrl-C and SIGTERM end the process with one line, as there is nothing to save yet, and
    so does an unsupported Keras backend.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

    def end(number: int, frame: object) -> None:
        is_interrupt = number == signal.SIGINT
        line = f"{_command_name()}: {_INTERRUPTED if is_interrupt else _STOPPED}\n"
        os.write(2, line.encode())
        # An exception could be caught by a module that is being imported.
        os._exit(_INTERRUPTED_CODE if is_interrupt else 0)

    before = {
        number: signal.signal(number, end)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN  # in background jobs of a shell script
    }
    try:
        yield
    except ReportedError as error:
        _fail(error)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


with quiet_start():
    import dataclasses
    import inspect
    import types
    import typing

    from absl import app, flags, logging

    from albert_tf.options import flag_name


def run(
    options_class: type, task: Callable[[typing.Any], typing.Any], description: str | None = None
) -> None:
    """Parses the command line into an `options_class` and calls `task` with it. Does not return.

    Args:
        options_class: frozen dataclass whose fields are declared with `albert_tf.options.option`.
        task: function to call.
        description: what `--help` says above the flags, a docstring in which `{command}` stands for the
            command as it was called; by default that of the main module.
    """
    if description is not None:
        name = _command_name()
        command = f"python {name}" if name.endswith(".py") else name
        # absl's `--help` prints the docstring of the main module.
        sys.modules["__main__"].__doc__ = inspect.cleandoc(description).format(command=command)
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
    # `int | None`: the flag's value is None by default.
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
    # `--help` shows the flags of the command instead of this module's.
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
    # TensorFlow logs how long each checkpoint took, and Dask has levels of its own.
    logging.set_verbosity(logging.WARNING)
    logging.get_absl_handler().setLevel("WARNING")
    signal.signal(signal.SIGTERM, _preempt)
    try:
        options = options_class(**_flag_values(options_class))
        if _TURNED_ON_ONEDNN and "tensorflow" in sys.modules:
            _say("using oneDNN, which is faster; TF_ENABLE_ONEDNN_OPTS=0 turns it off")
        task(options)
    except ReportedError as error:
        _fail(error)
    except Preempted as end:
        _say(str(end))
        sys.exit(end.exit_code)
    except BrokenPipeError:
        # The reader of the output has closed it. Discard the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        _say(_INTERRUPTED)
        sys.exit(_INTERRUPTED_CODE)
    finally:
        # The process is about to exit.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _preempt(number: int, frame: object) -> typing.NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process immediately
    raise Preempted(_STOPPED)


def _flag_values(options_class: type) -> dict[str, typing.Any]:
    values = {}
    for field in dataclasses.fields(options_class):
        value = flags.FLAGS[flag_name(field)].value
        if value == "" or (isinstance(value, list) and "" in value):
            raise FlagError(
                f"--{flag_name(field)}: received an empty value; omit the flag for none"
            )
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return values


def _fail(error: ReportedError) -> typing.NoReturn:
    _say(f"error: {' '.join(str(error).split())}")
    sys.exit(error.exit_code)


def _say(line: str) -> None:
    print(f"{_command_name()}: {line}", file=sys.stderr)
