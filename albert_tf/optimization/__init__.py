"""The original's optimizers and learning rate."""

from albert_tf.optimization.adamw import AdamWeightDecay
from albert_tf.optimization.lamb import Lamb
from albert_tf.optimization.schedule import PolynomialDecayWithWarmup

__all__ = ["AdamWeightDecay", "Lamb", "PolynomialDecayWithWarmup"]
