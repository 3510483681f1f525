"""LAMB (You et al. 2019, https://arxiv.org/abs/1904.00962), as ALBERT uses it."""

import keras
from keras import ops

from albert_tf.optimization.adamw import AdamWeightDecay


@keras.saving.register_keras_serializable(package="albert_tf")
class Lamb(AdamWeightDecay):
    """AdamW whose update of each variable is scaled to the variable's own norm.

        w = w - learning_rate * |w| / |update| * update

    where either norm is 0 the factor is 1; variables without weight decay have no factor. Against
    `keras.optimizers.Lamb` the bias of the moments is not corrected and the decay is inside the
    update whose norm counts.

    Args:
        learning_rate: a float or a `LearningRateSchedule`.
        name: name of the optimizer.
        **kwargs: as for `AdamWeightDecay`.
    """

    def __init__(self, learning_rate, name: str = "lamb", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)

    def build(self, variables):
        """Makes both moments of each variable, and what keeps its trust ratio."""
        if self.built:
            return
        super().build(variables)
        self._trust_ratios = {
            index: self.add_variable((), name=f"{variable.path.replace('/', '_')}_trust_ratio")
            for index, variable in enumerate(variables)
            if not self._is_excluded[index]
        }
        self._paths = [variable.path for variable in variables]

    @property
    def trust_ratios(self) -> dict[str, keras.Variable]:
        """The trust ratios of the last update, float32 (), by the path of the variable."""
        return {self._paths[index]: ratio for index, ratio in self._trust_ratios.items()}

    def trust_ratio(self, index, variable, update):
        """Returns |variable| / |update|, or 1 where a norm is 0, and keeps it."""
        variable_norm = ops.norm(variable)
        update_norm = ops.norm(update)
        both = ops.logical_and(variable_norm > 0, update_norm > 0)
        ratio = ops.where(both, variable_norm / ops.where(both, update_norm, 1.0), 1.0)
        self.assign(self._trust_ratios[index], ratio)
        return ratio
