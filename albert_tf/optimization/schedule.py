"""The learning rate: a linear warm-up, an optional constant phase, then a polynomial decay to zero."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="albert_tf")
class PolynomialDecayWithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """The rate of BERT and ALBERT (`optimization.create_optimizer` of the original).

    The decay runs from step 0, under the warm-up, so the rate drops a little where the warm-up ends:

        warm-up, t < start + warmup:  peak * (t - start) / warmup, 0 before start
        then:                         peak * (1 - t / train) ** power

    With `decay_steps` the rate stays at its peak until that many updates are left (Hägele et al. 2024,
    https://arxiv.org/abs/2405.18392):

        then:                         peak * (1 - max(0, t - train + decay) / decay) ** power

    Args:
        peak_learning_rate: the rate that the warm-up aims at.
        num_train_steps: updates until the rate is 0; it stays there.
        num_warmup_steps: updates of the warm-up; 0 for none.
        power: of the decay; 1 is linear.
        start_warmup_step: update at which the warm-up starts.
        decay_steps: number of updates of the decay, at the end; None for all.
    """

    def __init__(
        self,
        peak_learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        power: float = 1.0,
        start_warmup_step: int = 0,
        decay_steps: int | None = None,
    ):
        super().__init__()
        self.peak_learning_rate = peak_learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power
        self.start_warmup_step = start_warmup_step
        self.decay_steps = decay_steps

    def __call__(self, step):
        """Returns the rate of the update after `step` updates, float32 scalar."""
        step = ops.cast(step, "float32")
        decay_steps = self.num_train_steps if self.decay_steps is None else self.decay_steps
        decayed_for = ops.maximum(step - (self.num_train_steps - decay_steps), 0.0)
        done = ops.minimum(decayed_for / decay_steps, 1.0)
        decayed = self.peak_learning_rate * (1.0 - done) ** self.power
        if not self.num_warmup_steps:
            return decayed
        warmed = ops.maximum(step - self.start_warmup_step, 0.0) / self.num_warmup_steps
        return ops.where(warmed < 1.0, self.peak_learning_rate * warmed, decayed)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "power": self.power,
            "start_warmup_step": self.start_warmup_step,
            "decay_steps": self.decay_steps,
        }
