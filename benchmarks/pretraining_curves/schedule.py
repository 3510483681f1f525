"""The learning rate of `albert_tf.optimization` as plain arithmetic, for a program without Keras."""


def learning_rate(step: int, peak: float, num_train_steps: int, num_warmup_steps: int) -> float:
    """Returns the rate of the update after `step` updates; see `PolynomialDecayWithWarmup`."""
    if step < num_warmup_steps:
        return peak * step / num_warmup_steps
    return peak * (1 - step / num_train_steps)
