"""Progress of long work: a bar on a terminal, plain lines in a log."""

import datetime
import sys
import time
import types
from collections.abc import Mapping

import tqdm

# Work that may be short shows no progress before this.
SECONDS_WITHOUT_PROGRESS = 10.0
_SECONDS_BETWEEN_LINES = 10.0
_NOTHING: Mapping = types.MappingProxyType({})


class Progress:
    """Shows progress, its rate, the remaining time and current values.

    On a terminal it draws a bar. Otherwise it prints a line every ten seconds and at the end.

    Args:
        description: name of the work, e.g. `pretraining`.
        unit: unit of the progress in the plural, e.g. `steps`.
        total: total number of units; None if it is unknown.
        done: number of units done before, e.g. in a resumed run; they don't count for the rate.
        delay: seconds before anything is shown; shorter work shows nothing.
    """

    def __init__(
        self,
        description: str,
        unit: str,
        total: float | None = None,
        done: float = 0,
        delay: float = 0,
    ):
        self.description = description
        self.unit = unit
        self.total = total
        self.done = done
        self._delay = delay
        self._first = done
        self._start = self._last_line = time.monotonic()
        self._printed: float | None = None  # `done` at the last line
        self._bar = None
        self._values: dict[str, str] = {}
        if sys.stderr.isatty():
            self._bar = tqdm.tqdm(
                desc=description, unit=f" {unit}", total=total, initial=done, delay=delay
            )

    def update(self, count: float = 1) -> None:
        """Adds `count` units."""
        self.done += count
        if self._bar is not None:
            self._bar.update(round(self.done, 1) - self._bar.n)
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._print_line()

    def warm_up(self, count: float) -> None:
        """Adds `count` units, and restarts the measurement of the rate, e.g. after compilation."""
        self.done += count
        self._first, self._start = self.done, time.monotonic()
        if self._bar is not None:
            self._bar.unpause()
            self._bar.update(count)

    def report(self, values: Mapping[str, float], count: float = 0) -> None:
        """Adds `count` units and shows values.

        They stay next to a bar until they are reported again. In a log they have a line of their own.
        """
        shown = {name: _rounded(value) for name, value in values.items()}
        if self._bar is not None:
            self._values |= shown
            self._bar.set_postfix(self._values, refresh=False)
            self.update(count)
            self._bar.refresh()
        else:
            self.done += count
            self._print_line(shown)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._printed != self.done and time.monotonic() - self._start >= self._delay:
            self._print_line()

    def _print_line(self, values: Mapping[str, str] = _NOTHING) -> None:
        self._last_line = time.monotonic()
        self._printed = self.done
        elapsed = self._last_line - self._start
        rate = max(self.done - self._first, 0) / max(elapsed, 1e-9)
        parts = [f"{self.description}: {round(self.done, 1)}"]
        if self.total is not None:
            parts[0] += f"/{round(self.total, 1)}"
        parts[0] += f" {self.unit}"
        if rate > 0:
            parts.append(f"{rate:.1f} {self.unit}/s")
        if self.total is not None and rate > 0:
            left = round((self.total - self.done) / rate)
            parts.append(f"ETA {datetime.timedelta(seconds=left)}")
        parts += [f"{name} {value}" for name, value in values.items()]
        print(", ".join(parts), file=sys.stderr, flush=True)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
