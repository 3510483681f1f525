"""The optimizers that `--optimizer` names: a row each, of which flag, help and default rates are made.

`--help` reads the rows, so Keras is imported when an optimizer is made.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from albert_tf.errors import InputError
from albert_tf.lazy import LazyModule
from albert_tf.options.resolution import Resolution

if TYPE_CHECKING:
    import keras

    from albert_tf import optimization
else:
    optimization = LazyModule("albert_tf.optimization")


# Names of the rows, the values of --optimizer.
OptimizerName = Literal["lamb", "adamw", "debiased_adamw"]


class OptimizerRow(NamedTuple):
    """An optimizer.

    Attributes:
        description: what it is, for `--help`.
        make: makes it, given a learning rate or a schedule of it. All else has the original's values.
        rates: name for the learning rates that suit it. A default rate was measured with one optimizer;
            others with the same `rates` may use it, and with any other the user has to give a rate.
    """

    description: str
    make: Callable[[Any], "keras.optimizers.Optimizer"]
    rates: str


OPTIMIZERS: Mapping[OptimizerName, OptimizerRow] = {
    "lamb": OptimizerRow(
        description="LAMB",
        make=lambda rate: optimization.Lamb(rate),
        rates="lamb",
    ),
    "adamw": OptimizerRow(
        description="the original's AdamW",
        make=lambda rate: optimization.AdamWeightDecay(rate),
        rates="adamw",
    ),
    "debiased_adamw": OptimizerRow(
        description="AdamW with the correction of its moments' bias that the original lacks",
        make=lambda rate: optimization.AdamWeightDecay(rate, bias_correction=True),
        rates="adamw",
    ),
}


def describe_optimizers() -> str:
    """Returns a sentence with the descriptions of all optimizers."""
    *others, last = (row.description for row in OPTIMIZERS.values())
    return f"{', '.join(others)}, or {last}."


def check_rate(values: Resolution[Any], measured_with: OptimizerName) -> None:
    """Checks that the learning rate of one optimizer may be the default of another.

    Args:
        values: the options of the run, before the default rate is added.
        measured_with: name of the optimizer that the default rate is for.

    Raises:
        InputError: it may not, and no rate is given.
    """
    optimizer = values["optimizer"] or measured_with
    is_suitable = OPTIMIZERS[optimizer].rates == OPTIMIZERS[measured_with].rates
    if values.is_open("learning_rate") and not is_suitable:
        raise InputError(
            f"--optimizer={optimizer}: expected --learning_rate, too; the default rate is for "
            f"{measured_with}"
        )
