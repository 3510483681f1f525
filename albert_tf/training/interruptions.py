"""SIGTERM, with which schedulers announce that they take the machine away."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

from albert_tf.errors import Preempted


class Preemption:
    """Notes SIGTERM, so that the run ends where nothing is lost.

    Args:
        is_alone: whether there are no other workers, which would wait for one that ends.
    """

    def __init__(self, is_alone: bool):
        self._is_alone = is_alone
        self.requested = False
        self._may_raise = False

    def __enter__(self) -> "Preemption":
        # Python delivers signals to the main thread, and only there can they be asked for.
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *exception) -> None:
        if self._is_main:
            signal.signal(signal.SIGTERM, self._before)

    @contextlib.contextmanager
    def nothing_to_save(self) -> Iterator[None]:
        """Within, SIGTERM ends the run at once, unless other workers wait for this one."""
        self._may_raise = self._is_alone
        try:
            yield
        finally:
            self._may_raise = False

    def end(self) -> NoReturn:
        """Ends the run."""
        raise Preempted("stopped by SIGTERM; the same command goes on")

    def _note(self, *arguments) -> None:
        self.requested = True
        if self._may_raise:
            self.end()
