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

    def trust_ratio(self, variable, update):
        """Returns |variable| / |update|, or 1 where a norm is 0."""
        variable_norm = ops.norm(variable)
        update_norm = ops.norm(update)
        both = ops.logical_and(variable_norm > 0, update_norm > 0)
        return ops.where(both, variable_norm / ops.where(both, update_norm, 1.0), 1.0)
