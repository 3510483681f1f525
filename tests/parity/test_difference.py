import os
import subprocess
import sys

import numpy as np
import pytest

from tests.parity.difference import compare_numbers, count_unequal, merge


def compare(received, expected, **tolerance):
    return compare_numbers("part", "quantity", [("name", received, expected)], **tolerance)


def test_the_largest_difference_is_named():
    pairs = [("one", [1.0, 2.0], [1.0, 2.5]), ("other", [[3.0, 1.0, 2.0]], [[3.0, 1.25, 2.0]])]
    difference = compare_numbers("part", "quantity", pairs, atol=0.3)
    assert (difference.compared, difference.largest, difference.worst) == (5, 0.5, "one")
    assert not difference.agrees
    assert compare_numbers("part", "quantity", pairs, atol=0.5).agrees


def test_a_share_of_the_expected_number_is_allowed_besides():
    assert compare([101.0], [100.0], atol=0.5, rtol=0.005).agrees
    assert not compare([101.0, 1.6], [100.0, 1.0], atol=0.5, rtol=0.005).agrees


@pytest.mark.parametrize("received", [np.nan, np.inf])
def test_what_is_no_number_agrees_with_nothing(received):
    assert not compare([received, 1.0], [1.0, 1.0], atol=1e9).agrees


def test_other_shapes_are_not_broadcast():
    with pytest.raises(ValueError, match=r"name: shape \(1,\) against \(3,\)"):
        compare([1.0], [1.0, 1.0, 1.0], atol=0.1)


def test_unequal_items_are_counted_and_the_first_is_shown():
    difference = count_unequal("part", "quantity", ["a", "b", "c"], ["a", "x", "y"])
    assert (difference.compared, difference.largest) == (3, 2)
    assert difference.worst == "item 1: 'b' against 'x'"
    assert not difference.agrees
    assert count_unequal("part", "quantity", [[1]], [[1]]).agrees


def test_merged_numbers_have_the_largest_difference():
    merged = merge(
        "all", [compare([1.0], [1.5], atol=1.0), compare([1.0, 2.0], [3.0, 2.0], atol=1.0)]
    )
    assert (merged.quantity, merged.compared, merged.largest) == ("all", 3, 2.0)
    assert not merged.agrees


def test_merged_items_have_their_sum():
    parts = [count_unequal("part", "quantity", ["a", "b"], ["a", item]) for item in "bcd"]
    merged = merge("all", parts)
    assert (merged.compared, merged.largest, merged.agrees) == (6, 2, False)


@pytest.mark.slow
def test_without_reference_data_there_is_one_line(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "tests.parity", f"--golden_dir={tmp_path / 'absent'}"],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert f"parity: error: --golden_dir={tmp_path / 'absent'}: no such folder" in result.stderr
    assert "Traceback" not in result.stderr
