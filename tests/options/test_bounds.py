"""The range of an option: what its declaration says, its check and the words of the reference."""

import dataclasses

import pytest

from albert_tf.options import check_ranges, option
from albert_tf.options.bounds import Bounds
from albert_tf.options.kinds import KIND_FLAGS, KIND_OPTIONS, KindOptions, option_fields
from tests.helpers import refused


def check(value, **bounds):
    """Checks the value of an option that is declared with bounds."""
    declared = option("A number.", None, **bounds)
    check_ranges(dataclasses.make_dataclass("Options", [("x", object, declared)])(value))


@pytest.mark.parametrize(
    ("bounds", "within", "outside"),
    [
        ({"least": 2}, (2, 2**31 - 1, None), {1: "at least 2", 2**31: "at most 2147483647"}),
        ({"least": 0, "most": 2**40}, (0, 2**40), {-1: "at least 0", 2**41: f"at most {2**40}"}),
        ({"most": 3}, (-5, 3), {4: "at most 3"}),
        ({"least": 0, "below": 1}, (0, 0.99), {-0.1: "at least 0", 1.0: "less than 1"}),
        ({"least": 0}, (0.0,), {float("nan"): "at least 0"}),
        ({}, (-(2**40), 2**40, "a text", None), {}),
    ],
)
def test_a_value_keeps_to_all_bounds_of_its_declaration(bounds, within, outside):
    for value in within:
        check(value, **bounds)
    for value, expected in outside.items():
        with refused(f"^x={value}: expected {expected}$"):
            check(value, **bounds)


def test_a_bound_that_is_unknown_is_no_bound_that_is_ignored():
    with pytest.raises(TypeError, match="smallest"):
        option("A number.", None, smallest=1)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"least": 1}, "at least 1"),
        ({"least": 0, "most": 2**63 - 1}, "at least 0"),
        ({"least": 1, "most": 2**20}, "from 1 to 1,048,576"),
        ({"least": 0, "below": 1}, "at least 0, less than 1"),
    ],
)
def test_bounds_are_said_in_words(bounds, words):
    assert Bounds(**bounds).describe() == words


@pytest.mark.parametrize("name", KIND_OPTIONS)
def test_flags_have_the_bounds_of_the_kinds(name):
    (flag,) = (field for field in dataclasses.fields(KindOptions) if field.name == name)
    for options in KIND_FLAGS.values():
        declared = option_fields(options).get(name)
        assert declared is None or flag.metadata["bounds"] == declared.metadata["bounds"]
