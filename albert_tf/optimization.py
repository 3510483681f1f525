"""The original's optimizers and learning rate."""

import inspect
import re
from collections.abc import Sequence
from typing import ClassVar

import keras
from keras import ops

from albert_tf.backends import BACKEND

if BACKEND == "tensorflow":
    import tensorflow as tf


class WeightDecayOptimizer(keras.optimizers.Optimizer):
    """Base of the optimizers: decoupled weight decay as a part of the update, as the original has it.

        update = direction + weight_decay_rate * w
        w = w - learning_rate * trust_ratio * update

    A subclass has a `direction`, with `MOMENTS` if it keeps any, and may have a `trust_ratio`. Variables
    that are excluded have neither decay nor trust ratio. Keras' own decay happens outside the update,
    where no trust ratio sees it, and is not offered.

    Args:
        learning_rate: a float or a `LearningRateSchedule`.
        weight_decay_rate: 0.01 in all of the original's runs.
        exclude: regular expressions, or one; a variable in whose path one is found has no weight decay.
        **kwargs: as for `keras.optimizers.Optimizer`, such as `name`.

    Attributes:
        MOMENTS: names of what the optimizer keeps for each variable, in the order in which `direction`
            takes them; each begins at 0.
    """

    MOMENTS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        weight_decay_rate: float = 0.01,
        exclude: str | Sequence[str] = ("layer_norm", "bias"),
        **kwargs,
    ):
        if kwargs.get("weight_decay") is not None:
            raise ValueError("weight_decay: Keras' own is not offered; expected weight_decay_rate")
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.exclude = _patterns(exclude)

    def build(self, variables):
        """Makes the moments of each variable."""
        if self.built:
            return
        super().build(variables)
        self._moments = self.add_optimizer_variables(variables, list(self.MOMENTS))
        self._is_excluded = [
            any(re.search(pattern, variable.path) for pattern in self.exclude)
            for variable in variables
        ]

    def apply(self, grads, trainable_variables=None):
        """Updates the variables with their gradients.

        TensorFlow's gradient of an embedding is sparse (`tf.IndexedSlices`) and may hold a row several
        times. It is made dense before it is unscaled, accumulated and clipped: its norm is not that of
        its slices, and the moments of all rows decay in each update.

        Args:
            grads: a gradient, or None, for each variable.
            trainable_variables: the variables; None for those that the optimizer was built with.
        """
        if BACKEND == "tensorflow":
            grads = [None if g is None else tf.convert_to_tensor(g) for g in grads]
        super().apply(grads, trainable_variables)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """Adds to `exclude`; call it before the optimizer is built.

        Args:
            var_list: variables to exclude.
            var_names: regular expressions, or one, searched for in the variables' paths.
        """
        if self.built:
            raise ValueError("exclude_from_weight_decay: expected before the optimizer is built")
        exact = [f"^{re.escape(variable.path)}$" for variable in var_list or ()]
        self.exclude = (*self.exclude, *exact, *_patterns(var_names or ()))

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable and its moments."""
        index = self._get_variable_index(variable)
        moments = [of_variables[index] for of_variables in self._moments]
        update = self.direction(ops.cast(gradient, variable.dtype), *moments)
        rate = ops.cast(learning_rate, variable.dtype)
        if not self._is_excluded[index]:
            update = update + self.weight_decay_rate * variable
            rate = rate * self.trust_ratio(variable, update)
        self.assign_sub(variable, rate * update)

    def direction(self, gradient, *moments):
        """Updates the moments of a variable, and returns its update without decay and learning rate.

        Args:
            gradient: gradient of the variable, of its shape and data type.
            *moments: those of the variable, by `MOMENTS`, which it assigns with `self.assign`.
        """
        raise NotImplementedError

    def trust_ratio(self, variable, update):
        """Returns the factor on the learning rate of a variable that is not excluded; here 1."""
        del variable, update
        return 1.0

    def get_config(self):
        """Returns the arguments of the constructor."""
        config = super().get_config()
        del config["weight_decay"]  # Keras' own
        return {
            **config,
            "weight_decay_rate": self.weight_decay_rate,
            "exclude": list(self.exclude),
        }


def _patterns(given: str | Sequence[str]) -> tuple[str, ...]:
    # The characters of a string would exclude nearly everything.
    return (given,) if isinstance(given, str) else tuple(given)


@keras.saving.register_keras_serializable(package="albert_tf")
class AdamWeightDecay(WeightDecayOptimizer):
    """Adam with decoupled weight decay: `AdamWeightDecayOptimizer` of the original.

    It differs from `keras.optimizers.AdamW`: the moments' bias is corrected only if asked for, and the
    decay is added to the update, so that LAMB's trust ratio sees it.

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g**2
        update = m / (sqrt(v) + epsilon) + weight_decay_rate * w
        w = w - learning_rate * update

    With `bias_correction`, update t, from 1, has m / (1 - beta_1**t) and v / (1 - beta_2**t) instead of m
    and v (Kingma and Ba 2015, https://arxiv.org/abs/1412.6980). Without it the first updates are up to
    6.5 times as large, which can undo a pre-training (Zhang et al. 2020,
    https://arxiv.org/abs/2006.05987).

    Args:
        learning_rate: a float or a `LearningRateSchedule`.
        weight_decay_rate: 0.01 in all of the original's runs.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: outside the root.
        exclude: regular expressions, or one; a variable in whose path one is found has no weight decay.
        bias_correction: whether the bias of the moments, which begin at 0, is corrected.
        name: name of the optimizer.
        **kwargs: as for `keras.optimizers.Optimizer`.
    """

    MOMENTS: ClassVar[tuple[str, ...]] = ("m", "v")

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude: str | Sequence[str] = ("layer_norm", "bias"),
        bias_correction: bool = False,
        name: str = "adam_weight_decay",
        **kwargs,
    ):
        super().__init__(
            learning_rate=learning_rate,
            weight_decay_rate=weight_decay_rate,
            exclude=exclude,
            name=name,
            **kwargs,
        )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction

    def direction(self, gradient, m, v):
        """Updates both moments of a variable, and returns its update without decay and learning rate."""
        self.assign(m, self.beta_1 * m + (1.0 - self.beta_1) * gradient)
        self.assign(v, self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient))
        if self.bias_correction:
            count = ops.cast(self.iterations + 1, gradient.dtype)
            m = m / (1.0 - ops.power(self.beta_1, count))
            v = v / (1.0 - ops.power(self.beta_2, count))
        return m / (ops.sqrt(v) + self.epsilon)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
        }


@keras.saving.register_keras_serializable(package="albert_tf")
class Lamb(AdamWeightDecay):
    """LAMB (You et al. 2019, https://arxiv.org/abs/1904.00962), as ALBERT uses it.

    It is AdamW whose update of each variable is scaled to the variable's own norm.

        w = w - learning_rate * |w| / |update| * update

    where either norm is 0 the factor is 1; variables without weight decay have no factor. Against
    `keras.optimizers.Lamb` the bias of the moments is not corrected by default and the decay is inside
    the update whose norm counts.

    Args:
        learning_rate: a float or a `LearningRateSchedule`.
        name: name of the optimizer.
        **kwargs: as for `AdamWeightDecay`.
    """

    def __init__(self, learning_rate, name: str = "lamb", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)

    def trust_ratio(self, variable, update):
        """Returns |variable| / |update|, or 1 where a norm is 0."""
        variable_norm = ops.norm(variable)
        update_norm = ops.norm(update)
        both = ops.logical_and(variable_norm > 0, update_norm > 0)
        return ops.where(both, variable_norm / ops.where(both, update_norm, 1.0), 1.0)


@keras.saving.register_keras_serializable(package="albert_tf")
class PolynomialDecayWithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of BERT and ALBERT: a linear warm-up, then a polynomial decay to zero.

    It is that of `optimization.create_optimizer` of the original. The decay runs from step 0, under the
    warm-up, so the rate drops a little where the warm-up ends:

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
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names}
