"""Which source sets a value that no flag gives."""

import dataclasses
from typing import ClassVar

from albert_tf.options import check_ranges, option
from albert_tf.options.resolution import Resolution
from tests.helpers import refused


@dataclasses.dataclass(frozen=True)
class Options:
    ALTERNATIVES: ClassVar = (("steps", "epochs"),)

    steps: int | None = option("Steps.", None, least=1)
    epochs: float | None = option("Epochs.", None)
    rate: float | None = option("Rate.", None)
    model: str | None = option("Model.", None)
    is_new: bool | None = option("New.", None)

    def __post_init__(self):
        check_ranges(self)


def test_earlier_sources_win_and_an_alternative_closes_an_option():
    values = Resolution(Options(epochs=2.0))
    values.add("recipe", {"steps": 7, "rate": 0.5, "model": None})
    values.add("model", {"rate": 0.25, "model": "x", "is_new": False}, {"model": "it is x"})
    assert values.options() == Options(epochs=2.0, rate=0.5, model="x", is_new=False)
    assert [values.source(name) for name in ("epochs", "rate", "model")] == [
        *("given", "recipe", "model")
    ]
    assert [values.is_chosen(name) for name in ("epochs", "rate", "model")] == [False, False, True]
    assert [values.says(name) for name in ("epochs", "rate")] == ["--epochs", "the recipe"]
    described = "--epochs=2, --rate=0.5, --model=x (it is x), --nois_new"
    assert values.describe(("steps", "epochs", "rate", "model", "is_new")) == described
    assert values.noted() == {"sources": {"rate": "recipe", "model": "model", "is_new": "model"}}


def test_who_set_a_value_outlives_a_resume():
    values = Resolution(Options())
    values.add("folder", {"steps": 3, "rate": 0.5}, origins={"steps": "rows"})
    assert values.noted() == {"sources": {"steps": "rows"}}  # a flag gave the rate
    assert [values.is_chosen(name) for name in ("steps", "rate")] == [True, False]
    values.replace("steps", 2)
    assert (values.options().steps, values.is_chosen("steps")) == (2, True)


def test_values_of_sources_are_checked():
    values = Resolution(Options())
    values.add("folder", {"steps": 0})
    with refused("^steps=0: expected at least 1$"):
        values.options()
