"""The model of a run, with what trains or evaluates it."""

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.kinds import Kind
from albert_tf.kinds.taught import TaughtKind
from albert_tf.models import AlbertEncoder
from albert_tf.options.resolution import resolved
from albert_tf.tasks import training_run
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.training import Evaluator


def make_evaluator(
    options: FineTuningOptions,
    config: AlbertConfig,
    kind: Kind,
    *,
    num_train_steps: int = 0,
    num_warmup_steps: int = 0,
    targets: np.ndarray | None = None,
) -> Evaluator:
    """Makes the model and what runs it: a `Trainer` with `--do_train`.

    `targets` are those of a teacher, if the training has one.
    """
    kind.check_segments(config)
    seed, dtype = options.random_seed, options.mixed_precision

    def make_model() -> keras.Model:
        encoder = AlbertEncoder(config, seed=seed, dtype=dtype)
        model = kind.make_model(encoder, resolved(options.classifier_dropout), seed + 1, dtype)
        has_head = len(model.weights) > len(encoder.weights)
        if not has_head and {"embedding", "blocks"} <= {*options.frozen_parts}:
            raise InputError(
                f"--trainable={options.trainable}: {kind.name} has no head; expected embedding "
                "or blocks"
            )
        for part in options.frozen_parts:
            for layer in tf.nest.flatten(getattr(encoder, part)):
                layer.trainable = False
        if targets is not None and isinstance(kind, TaughtKind):
            return kind.taught_model(model, targets, seed + 2)
        return model

    loss = kind.loss
    if targets is not None and isinstance(kind, TaughtKind):
        loss = kind.taught_loss(resolved(options.teacher_weight))
    return training_run.make_evaluator(
        options,
        make_model,
        loss,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_warmup_steps,
    )
