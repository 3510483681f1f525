"""The comparison with the original can fail."""

import numpy as np
import pytest

from tests.parity.difference import compare_numbers, count_unequal, merge


@pytest.mark.parametrize(
    ("received", "expected", "atol", "largest", "agrees"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.3, 0.5, False),
        ([1.0, 2.0], [1.0, 2.5], 0.5, 0.5, True),
        ([101.0], [100.0], 0.5, 1.0, True),  # by the share of the expected number
        ([1.6], [1.0], 0.5, 0.6, False),
        ([np.nan, 1.0], [1.0, 1.0], 1e9, np.nan, False),
        ([np.inf, 1.0], [1.0, 1.0], 1e9, np.inf, False),
    ],
)
def test_numbers(received, expected, atol, largest, agrees):
    pairs = [("same", [3.0], [3.0]), ("name", received, expected)]
    difference = compare_numbers("part", pairs, atol, rtol=0.005)
    assert (difference.compared, difference.worst) == (1 + len(received), "name")
    assert difference.largest == pytest.approx(largest, nan_ok=True)
    assert difference.agrees is agrees
    assert merge([difference, compare_numbers("part", pairs[:1], atol, 0.005)]).agrees is agrees


def test_other_shapes_are_not_broadcast():
    with pytest.raises(ValueError, match=r"name: shape \(1,\) against \(3,\)"):
        compare_numbers("part", [("name", [1.0], [1.0, 1.0, 1.0])], 0.1)


def test_unequal_items_are_counted_and_the_first_is_shown():
    difference = count_unequal("part", ["a", "b", "c"], ["a", "x", "y"])
    assert (difference.compared, difference.largest, difference.agrees) == (3, 2, False)
    assert difference.worst == "item 1: 'b' against 'x'"
    assert count_unequal("part", [[1]], [[1]]).agrees
    merged = merge([difference, difference])
    assert (merged.compared, merged.largest, merged.agrees) == (6, 4, False)
