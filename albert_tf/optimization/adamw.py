"""Adam with decoupled weight decay, as BERT and ALBERT have it.

It differs from `keras.optimizers.AdamW`: the moments' bias is not corrected, and the decay is added to
the update, so that LAMB's trust ratio sees it.
"""

import re
from collections.abc import Sequence

import keras
from keras import ops

from albert_tf.backends import BACKEND

if BACKEND == "tensorflow":
    import tensorflow as tf


@keras.saving.register_keras_serializable(package="albert_tf")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """`AdamWeightDecayOptimizer` of the original.

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g**2
        update = m / (sqrt(v) + epsilon) + weight_decay_rate * w
        w = w - learning_rate * update

    Args:
        learning_rate: a float or a `LearningRateSchedule`.
        weight_decay_rate: 0.01 in all of the original's runs.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: outside the root.
        exclude: regular expressions; a variable whose path matches one has no weight decay.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude: Sequence[str] = ("layer_norm", "bias"),
        name: str = "adam_weight_decay",
        **kwargs,
    ):
        if kwargs.get("weight_decay") is not None:
            raise ValueError("weight_decay: Keras' own is not offered; expected weight_decay_rate")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude = tuple(exclude)

    def build(self, variables):
        """Makes both moments of each variable."""
        if self.built:
            return
        super().build(variables)
        self._first_moments, self._second_moments = self.add_optimizer_variables(
            variables, ["m", "v"]
        )
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
            var_names: regular expressions, searched for in the variables' paths.
        """
        if self.built:
            raise ValueError("exclude_from_weight_decay: expected before the optimizer is built")
        exact = [f"^{re.escape(variable.path)}$" for variable in var_list or ()]
        self.exclude = (*self.exclude, *exact, *(var_names or ()))

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable and its moments."""
        index = self._get_variable_index(variable)
        m, v = self._first_moments[index], self._second_moments[index]
        gradient = ops.cast(gradient, variable.dtype)
        self.assign(m, self.beta_1 * m + (1.0 - self.beta_1) * gradient)
        self.assign(v, self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient))
        update = m / (ops.sqrt(v) + self.epsilon)
        rate = ops.cast(learning_rate, variable.dtype)
        if not self._is_excluded[index]:
            update = update + self.weight_decay_rate * variable
            rate = rate * self.trust_ratio(index, variable, update)
        self.assign_sub(variable, rate * update)

    def trust_ratio(self, index, variable, update):
        """Returns the factor on the learning rate of a variable that is not excluded; here 1."""
        del index, variable, update
        return 1.0

    @property
    def trust_ratios(self) -> dict[str, keras.Variable]:
        """The trust ratios of the last update, float32 (), by the path of the variable; here none."""
        return {}

    def get_config(self):
        """Returns the arguments of the constructor."""
        config = super().get_config()
        # Keras' own decay happens outside the update; this class does not offer it.
        del config["weight_decay"]
        return {
            **config,
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "exclude": list(self.exclude),
        }
