import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far one quantity is from its reference."""

    part: str  # of the project, such as "encoder"
    compared: int  # how many numbers, lines or examples
    largest: float  # the largest absolute difference of numbers; the number of unequal items
    allowed: str  # the tolerance
    worst: str  # place of the largest difference or of the first unequal item; "" if all are equal
    agrees: bool  # whether all are within the tolerance


def compare_numbers(
    part: str, pairs: Iterable[tuple[str, Any, Any]], atol: float, rtol: float = 0.0
) -> Difference:
    """Compares arrays of numbers with references of equal shapes, in triples of name, ours and theirs.

    `rtol` is allowed in addition to `atol`, relative to the reference.
    """
    compared, largest, worst, agrees = 0, 0.0, "", True
    for name, received, expected in pairs:
        received, expected = np.asarray(received), np.asarray(expected)
        if received.shape != expected.shape:
            raise ValueError(f"{name}: shape {received.shape} against {expected.shape}")
        difference = np.abs(received.astype(np.float64) - expected)
        compared += difference.size
        # Not `>`: a NaN agrees with nothing.
        agrees &= bool((difference <= atol + rtol * np.abs(expected)).all())
        if not difference.max() <= largest:
            largest, worst = float(difference.max()), name
    allowed = f"{atol:g} + {rtol:g} relative" if rtol else f"{atol:g}"
    return Difference(part, compared, largest, allowed, worst, agrees)


def count_unequal(part: str, received: Sequence[Any], expected: Sequence[Any]) -> Difference:
    """Counts the items that differ from their reference."""
    unequal = [
        f"item {index}: {ours!r} against {theirs!r}"
        for index, (ours, theirs) in enumerate(zip(received, expected, strict=True))
        if ours != theirs
    ]
    worst = unequal[0] if unequal else ""
    return Difference(part, len(expected), len(unequal), "0", worst, not unequal)


def merge(differences: Sequence[Difference]) -> Difference:
    """Returns several differences of one part, all with the same allowance, as one."""
    largest = max(differences, key=lambda difference: difference.largest)
    if differences[0].allowed == "0":
        total = sum(difference.largest for difference in differences)
        largest = dataclasses.replace(largest, largest=total)
    return dataclasses.replace(
        largest,
        compared=sum(difference.compared for difference in differences),
        agrees=all(difference.agrees for difference in differences),
    )
