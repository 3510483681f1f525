"""Interruptions from outside: SIGTERM, Ctrl-C and lost workers.

Schedulers send SIGTERM before they preempt a machine.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import Preempted, StoppedError

_STDERR = 2


class Preemption:
    """Records SIGTERM and Ctrl-C, so that the run can save its state before it ends.

    A second Ctrl-C ends the process immediately.

    Args:
        is_alone: whether there are no other workers, which would wait for this one.
    """

    def __init__(self, is_alone: bool):
        self._is_alone = is_alone
        self._signal: int | None = None
        self._may_raise = False
        self._before = {}

    @property
    def requested(self) -> bool:
        """Whether the run should end."""
        return self._signal is not None

    def __enter__(self) -> "Preemption":
        # Signal handlers can only be set in the main thread.
        if threading.current_thread() is threading.main_thread():
            self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._note)
            # Background jobs of a shell script ignore Ctrl-C.
            if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
                self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exception) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def nothing_to_save(self) -> Iterator[None]:
        """Lets a signal end the block immediately, unless other workers wait for this one."""
        self._may_raise = self._is_alone
        try:
            self._end_if_requested()
            yield
            # Python discards exceptions raised in a destructor.
            self._end_if_requested()
        finally:
            self._may_raise = False

    def end(self) -> NoReturn:
        """Ends the run."""
        if self._signal == signal.SIGINT:
            raise Preempted("stopped by Ctrl-C; the same command resumes", 128 + signal.SIGINT)
        raise Preempted("stopped by SIGTERM; the same command resumes")

    def _note(self, number: int, frame: object) -> None:
        self._signal = self._signal or number
        if number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
            if not self._may_raise:
                # Not print, which is not reentrant.
                os.write(
                    _STDERR, b"\nCtrl-C: saving after this step; Ctrl-C again quits immediately\n"
                )
        self._end_if_requested()

    def _end_if_requested(self) -> None:
        if self.requested and self._may_raise:
            self.end()


@contextlib.contextmanager
def explain_lost_worker(is_alone: bool) -> Iterator[None]:
    """Turns TensorFlow's error about another worker into a `StoppedError`, if there is another."""
    try:
        yield
    except tf.errors.OpError as error:
        # A worker whose link is cut gets an error of another type, with this text.
        is_lost = isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError)
        if is_alone or not (is_lost or "Collective ops is aborted" in error.message):
            raise
        raise StoppedError(
            f"another worker was lost ({files.reason(error)}); restart all workers with the same "
            "commands to resume from the newest checkpoint"
        ) from error
