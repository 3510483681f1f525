"""The range of an option: a field for each kind of bound, with its words and its comparison.

`option` takes the bounds as arguments. The check of a value, its message, the flags of kinds and the
reference of the site take the object as a whole, so another kind of bound is another field.
"""

import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any

from albert_tf.errors import InputError

_MAX_INT32 = 2**31 - 1


def _bound(
    words: str, holds: Callable[[Any, Any], bool], default: float | None = None
) -> float | None:
    """Declares a kind of bound: what a message calls it, and whether a value keeps to a limit."""
    metadata = {"words": words, "holds": holds}
    field: Any = dataclasses.field(default=default, metadata=metadata)
    return field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bounds:
    """The bounds of a number; None for no bound.

    Attributes:
        least: the smallest value.
        most: the greatest value, by default that of a 32-bit integer.
        below: a limit that is itself out of range.
    """

    least: float | None = _bound("at least", operator.ge)
    most: float | None = _bound("at most", operator.le, default=_MAX_INT32)
    below: float | None = _bound("less than", operator.lt)

    def check(self, name: str, value: float | None) -> None:
        """Raises an `InputError` if the value of an option is neither None nor within the bounds."""
        if value is None:
            return
        for bound, limit in self._given():
            if not bound.metadata["holds"](value, limit):
                raise InputError(f"{name}={value}: expected {bound.metadata['words']} {limit}")

    def describe(self) -> str:
        """Returns the bounds in words, without the limits of data types."""
        limits = {
            bound.name: f"{bound.metadata['words']} {limit:,}"
            for bound, limit in self._given()
            if limit < _MAX_INT32
        }
        if limits.keys() == {"least", "most"}:
            return f"from {self.least:,} to {self.most:,}"
        return ", ".join(limits.values())

    def _given(self) -> Iterator[tuple[dataclasses.Field, float]]:
        for bound in dataclasses.fields(self):
            limit = getattr(self, bound.name)
            if limit is not None:
                yield bound, limit
