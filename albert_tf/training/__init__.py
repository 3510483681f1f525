"""Steps, replicas, checkpoints: training that knows nothing of ALBERT."""

from albert_tf.training.loop import TrainingPlan, resume, train
from albert_tf.training.strategy import make_strategy
from albert_tf.training.trainer import Trainer

__all__ = ["Trainer", "TrainingPlan", "make_strategy", "resume", "train"]
