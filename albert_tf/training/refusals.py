"""What `model.fit` does and a `Trainer` does not, which is refused instead of ignored."""

from collections.abc import Sequence

import keras

from albert_tf.errors import InputError

_CLIPS = "none, as the trainer clips the global norm of all gradients"
# Settings of Keras's optimizers that `Optimizer.apply` carries out, but not `update_step`, which is all
# that a trainer calls -> what to use instead.
_UNUSED_SETTINGS = {
    "weight_decay": "weight_decay_rate of albert_tf's optimizers",
    "clipnorm": _CLIPS,
    "clipvalue": _CLIPS,
    "global_clipnorm": _CLIPS,
    "use_ema": "model.fit, which averages the weights",
    "loss_scale_factor": "mixed_bfloat16, which needs no scale",
    "gradient_accumulation_steps": "accumulate_steps of the trainer",
}
# What Keras's `Optimizer.apply` calls around all calls of `update_step`.
_AROUND_STEPS = "_backend_update_step"


def check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Raises an `InputError` if an optimizer does something in `apply` that `update_step` does not."""
    name = type(optimizer).__name__
    for setting, instead in _UNUSED_SETTINGS.items():
        value = getattr(optimizer, setting)
        if value:  # 0 has no effect in Keras either
            raise InputError(
                f"optimizer: {name} has {setting}={value}, which would have no effect in this training; "
                f"expected {instead}"
            )
    own, base = type(optimizer), keras.optimizers.Optimizer
    # A wrapper of other optimizers has none, and Nadam does something before.
    does_more = getattr(own, _AROUND_STEPS, None) is not getattr(base, _AROUND_STEPS, None)
    if own.update_step is base.update_step or does_more:
        raise InputError(
            f"optimizer: {name} does more than its update_step, which is all that this training calls; "
            "expected another optimizer"
        )


def check_variables(variables: Sequence[keras.Variable]) -> None:
    """Raises an `InputError` if a variable has what `model.fit` heeds and a trainer does not."""
    for variable in variables:
        for setting in ("regularizer", "constraint"):
            if getattr(variable, setting) is not None:
                raise InputError(
                    f"'{variable.path}' has a {setting}, which would have no effect in this training; "
                    "expected none"
                )
