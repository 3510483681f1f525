"""The start of a command: the environment of the libraries, and quiet while they are imported.

It is imported before all slow modules, and imports none itself.
"""

import contextlib
import importlib
import os
import re
import signal
import sys
import tempfile
import typing
from collections.abc import Iterator

from albert_tf.errors import ReportedError
from albert_tf.processor import turn_on_onednn

STOPPED = "stopped by SIGTERM; run the same command again"
INTERRUPTED = "interrupted"
INTERRUPTED_CODE = 128 + signal.SIGINT  # the convention of shells

# TensorFlow reads both when it is imported.
TURNED_ON_ONEDNN = turn_on_onednn()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# Lines that TensorFlow writes when it is imported, whatever its log level. 303: there is no CUDA.
_START_UP_LINE = re.compile(
    rb"WARNING: All log messages before absl|[IW]\d{4} |E\d{4} .*cuInit.*303"
)


# Keras imports them where they are installed, for wrappers and plots. No command uses these, and the
# imports take a third of the time that those of TensorFlow take.
_UNUSED_BY_KERAS = ("matplotlib", "sklearn")


def import_keras() -> None:
    """Imports Keras without slow libraries, which other modules import where they need them."""
    hidden = [name for name in _UNUSED_BY_KERAS if name not in sys.modules]
    # An import of a module that is None fails.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # typed without None
    try:
        importlib.import_module("keras")
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Keeps the start of a command quiet. Import TensorFlow and other slow modules in this context.

    TensorFlow's lines do not appear, unless TF_CPP_MIN_LOG_LEVEL is less than 2. Ctrl-C and SIGTERM end
    the process with one line, as there is nothing to save yet, and so does an unsupported Keras backend.
    """
    is_quiet = sys.stderr is not None and os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2") >= "2"
    with _without_start_up_lines() if is_quiet else contextlib.nullcontext(2) as screen:

        def end(number: int, frame: object) -> None:
            is_interrupt = number == signal.SIGINT
            line = f"{command_name()}: {INTERRUPTED if is_interrupt else STOPPED}\n"
            os.write(screen, line.encode())
            # An exception could be caught by a module that is being imported.
            os._exit(INTERRUPTED_CODE if is_interrupt else 0)

        before = {
            number: signal.signal(number, end)
            for number in (signal.SIGINT, signal.SIGTERM)
            if signal.getsignal(number) != signal.SIG_IGN  # in background jobs of a shell script
        }
        try:
            yield
            if tensorflow := sys.modules.get("tensorflow"):
                tensorflow.config.list_physical_devices()  # finds no CUDA now rather than later
        except ReportedError as error:
            fail(error)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _without_start_up_lines() -> Iterator[int]:
    """Holds standard error back until the end, and then leaves out TensorFlow's start-up lines.

    They come from C++, before any setting of its log could be changed.

    Yields:
        File descriptor of standard error itself.
    """
    screen = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield screen
        finally:
            sys.stderr.flush()
            os.dup2(screen, 2)
            os.close(screen)
            held.seek(0)
            os.write(2, b"".join(line for line in held if not _START_UP_LINE.match(line)))


def command_name() -> str:
    """Returns the command's file name, or its folder's name if it was started with `python -m`."""
    folder, name = os.path.split(sys.argv[0])
    return os.path.basename(folder) if name == "__main__.py" else name


def say(line: str) -> None:
    """Prints a line of the command to standard error."""
    print(f"{command_name()}: {line}", file=sys.stderr)


def fail(error: Exception, exit_code: int = 1) -> typing.NoReturn:
    """Ends the process with one line for an error."""
    say("error: " + " ".join(str(error).split()))
    sys.exit(exit_code)
