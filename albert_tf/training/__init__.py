"""Steps, replicas, checkpoints: training that knows nothing of ALBERT.

What cannot be written is a `StoppedError` that names it, and a user's mistake an `InputError`.
"""

from albert_tf.training.evaluator import Evaluator
from albert_tf.training.loop import TrainingPlan, best_metrics, resume, train
from albert_tf.training.reports import draw_learning_curve
from albert_tf.training.strategy import (
    explain_full_memory,
    explain_lost_worker,
    has_gpu,
    make_deterministic,
    make_strategy,
)
from albert_tf.training.trainer import Trainer

__all__ = [
    "Evaluator",
    "Trainer",
    "TrainingPlan",
    "best_metrics",
    "draw_learning_curve",
    "explain_full_memory",
    "explain_lost_worker",
    "has_gpu",
    "make_deterministic",
    "make_strategy",
    "resume",
    "train",
]
