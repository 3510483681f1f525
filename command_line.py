"""From flags to options: what all scripts share.

The flags of a script are the fields of its task's options dataclass. A user's mistake prints one line
and ends with exit code 1, or 2 where the flags alone show it. SIGTERM ends a script with one line and
exit code 0, Ctrl-C with one line and 130; training saves a checkpoint first.
"""

# Whatever takes long to import comes below, where signals are handled.
import contextlib
import glob
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

_STOPPED = "stopped by SIGTERM; the same command goes on"
_INTERRUPTED = "interrupted"
_INTERRUPTED_CODE = 128 + signal.SIGINT  # as shells have it


def _script_name() -> str:
    """Returns the script's file name; where it stands for its folder, as with `python -m`, that one's."""
    folder, name = os.path.split(sys.argv[0])
    return os.path.basename(folder) if name == "__main__.py" else name


def _turn_on_onednn() -> bool:
    """Turns oneDNN on where TensorFlow leaves it off, and returns whether it did.

    TensorFlow uses it on processors with instructions for neural networks alone, but with AVX2 it is
    faster, too. The user's own setting stays.
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
    """Keeps the start of a script quiet: import TensorFlow, and whatever else takes long, within.

    TensorFlow's start-up notes are dropped; no setting reaches those that it writes while it is imported.
    Ctrl-C and SIGTERM end the process with one line, as nothing has begun that could be lost.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    stderr = os.dup(2)

    def end(number: int, frame: object) -> None:
        is_interrupt = number == signal.SIGINT
        line = f"{_script_name()}: {_INTERRUPTED if is_interrupt else _STOPPED}\n"
        os.write(stderr, line.encode())
        # An exception would have to pass through the imports, where some handle any.
        os._exit(_INTERRUPTED_CODE if is_interrupt else 0)

    before = {
        number: signal.signal(number, end)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN  # as a shell script's background jobs have it
    }
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
        if not has_nvidia_gpu():
            _list_devices()
    finally:
        os.dup2(stderr, 2)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(stderr)


def has_nvidia_gpu() -> bool:
    """Returns whether there is an NVIDIA GPU, even one without a driver or hidden from a container."""
    if glob.glob("/dev/nvidia*") or os.path.exists("/dev/dxg"):  # the second under Windows (WSL)
        return True
    for path in glob.glob("/sys/bus/pci/devices/*/vendor"):
        with contextlib.suppress(OSError), open(path) as file:
            if file.read().strip() == "0x10de":
                return True
    return False


def _list_devices() -> None:
    """Makes TensorFlow look for GPUs if it is imported: it complains once if there is none."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and tensorflow.test.is_built_with_cuda():
        tensorflow.config.list_physical_devices()


with quiet_start():
    import dataclasses
    import types
    import typing

    from absl import app, flags, logging

    from albert_tf.errors import FlagError, InputError, Preempted
    from albert_tf.options import flag_name


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
    signal.signal(signal.SIGTERM, _preempt)
    try:
        options = options_class(**_flag_values(options_class))
        if _TURNED_ON_ONEDNN and "tensorflow" in sys.modules:
            _say("turned oneDNN on for speed; TF_ENABLE_ONEDNN_OPTS=0 leaves it off")
        task(options)
    except InputError as error:
        _fail(error)
    except Preempted as end:
        _say(str(end))
        sys.exit(end.exit_code)
    except BrokenPipeError:
        # Who reads the answers has read enough. What Python has not yet written goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        _say(_INTERRUPTED)
        sys.exit(_INTERRUPTED_CODE)
    finally:
        # The task is over, and so is the process in a moment.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _preempt(number: int, frame: object) -> typing.NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    raise Preempted(_STOPPED)


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
    _say(f"error: {' '.join(str(error).split())}")
    sys.exit(error.exit_code)


def _say(line: str) -> None:
    print(f"{_script_name()}: {line}", file=sys.stderr)
