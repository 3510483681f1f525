"""Errors that are not bugs of this package, and warnings.

The command line prints a `ReportedError` as one line, without a traceback. Any other exception is a bug
and keeps its traceback.
"""

import contextlib
import sys
from collections.abc import Iterator


class ReportedError(Exception):
    """An error whose message is one line for the user."""

    # AutoGraph re-raises an error in its own class only if the class has this constructor.
    __init__ = Exception.__init__


class InputError(ReportedError, ValueError):
    """A mistake in the user's input.

    The message names the argument, or the file and line, and says what was received and what was
    expected. The command line puts `--` before an argument at its start that is a flag.
    """


class StoppedError(ReportedError, RuntimeError):
    """Something outside the run stopped it: a full disk, a killed worker. A retry may succeed."""


class Preempted(BaseException):
    """SIGTERM or Ctrl-C ended the run after it saved its state, so that the same command resumes it.

    Not an `Exception`, so that code that handles errors lets it pass. Keras replaces each `Exception` of
    a layer by one of its own.

    Attributes:
        exit_code: exit status of the command line.
    """

    def __init__(self, message: str, exit_code: int = 0):
        super().__init__(message)
        self.exit_code = exit_code


@contextlib.contextmanager
def name_place(place: str) -> Iterator[None]:
    """Puts a flag or a file before the message of an `InputError`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def warn(message: str) -> None:
    """Prints a warning to standard error."""
    print(f"warning: {message}", file=sys.stderr)
