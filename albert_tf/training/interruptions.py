"""What ends or interrupts a run: SIGTERM, and gradients that are not finite."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

import tensorflow as tf

from albert_tf.errors import InputError, Preempted


class BadSteps:
    """Watches over the steps that are skipped; reads nothing from the device until it is asked.

    Args:
        most: how many in a row there may be.

    Attributes:
        in_a_row: how many the last ones are.
    """

    def __init__(self, most: int):
        self._most = most
        self._unread: list[tuple[int, tuple[tf.Tensor, tf.Tensor]]] = []
        self.in_a_row = 0

    def add(self, step: int, skipped: tuple[tf.Tensor, tf.Tensor]) -> None:
        """Notes which of the steps up to `step` were skipped: `skipped_updates` of the trainer."""
        self._unread.append((step, skipped))

    def check(self) -> None:
        """Warns of each step that was skipped.

        Raises:
            InputError: there are too many in a row.
        """
        for step, is_skipped in self._read():
            self.in_a_row = self.in_a_row + 1 if is_skipped else 0
            if is_skipped:
                print(f"warning: step {step}: a gradient is not finite; skipped", file=sys.stderr)
            if self.in_a_row > self._most:
                raise InputError(
                    f"step {step}: the gradients of {self.in_a_row} steps in a row are not finite; the "
                    "newest checkpoint is from before; start again with a lower --learning_rate or a "
                    "longer warm-up"
                )
        self._unread = []

    def _read(self) -> Iterator[tuple[int, bool]]:
        """Yields the number of each step and whether it was skipped."""
        for last, (skipped, _) in self._unread:
            flags = skipped.numpy() > 0
            yield from enumerate(flags, last - len(flags) + 1)


class Preemption:
    """Notes SIGTERM, with which schedulers announce that they take the machine away.

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
