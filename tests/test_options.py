import dataclasses

import pytest

from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option


@dataclasses.dataclass(frozen=True)
class Options:
    size: int = option("Size.", 3, least=1, most=9)
    rate: float | None = option("Rate.", None, least=0, most=1)
    names: tuple[str, ...] = option("Names.", ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, "size=0: expected at least 1"),
        ({"size": 10}, "size=10: expected at most 9"),
        ({"rate": 1.5}, "rate=1.5: expected at most 1"),
        ({"rate": float("nan")}, "rate=nan: expected at least 0"),
    ],
)
def test_values_out_of_range_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        check_ranges(Options(**changes))


def test_bounds_none_and_other_types_are_accepted():
    check_ranges(Options(size=9, rate=None, names=("a",)))
    check_ranges(Options(size=1, rate=0.0))
