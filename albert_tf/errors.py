"""What a user's mistake becomes.

Every part of the package that reads what a user gave raises `InputError`, and the command line prints
its message as one line without a traceback. Any other exception is a mistake of ours and keeps its
traceback.
"""

import contextlib
from collections.abc import Iterator


class InputError(ValueError):
    """A mistake in what the user gave.

    The message is one line that names the flag, or the file and line, what was received and what
    was expected.

    Attributes:
        exit_code: exit status of the command line.
    """

    # AutoGraph raises an error again, and in its own class only where this is the constructor.
    __init__ = Exception.__init__

    exit_code = 1


class FlagError(InputError):
    """A mistake that shows in the flags alone, before any file is read."""

    exit_code = 2


class StoppedError(InputError):
    """Something outside ended a run: a full disk, a killed worker. The same run may succeed later."""


class Preempted(BaseException):
    """SIGTERM or Ctrl-C ended the run, and the run has saved what the same command goes on from.

    Not an `Exception`, so that it passes through code that handles errors: Keras raises another one in
    place of each `Exception` from a layer, with a text of its own.

    Attributes:
        exit_code: exit status of the command line.
    """

    def __init__(self, message: str, exit_code: int = 0):
        super().__init__(message)
        self.exit_code = exit_code


@contextlib.contextmanager
def name_place(place: str) -> Iterator[None]:
    """Puts where a mistake is, a flag or a file, before its message."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
