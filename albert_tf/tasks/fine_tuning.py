"""How every fine-tuning task trains: steps, the folder, early stopping."""

import contextlib
import dataclasses
import functools
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint, stored_shape
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.pipeline import training_batches
from albert_tf.errors import InputError, name_place
from albert_tf.export import ExportDetails, ExportedModel
from albert_tf.export.assets import json_asset
from albert_tf.export.weights import round_to_int8
from albert_tf.models import AlbertEncoder
from albert_tf.tasks.common import (
    check_output_dir,
    has_checkpoint,
    make_evaluator,
    start_or_resume,
)
from albert_tf.tasks.fine_tuning_options import FineTuningOptions
from albert_tf.tasks.learning_curve import draw_learning_curve
from albert_tf.tasks.trained_folder import (
    OPTIONS_FILE,
    VOCABULARY_SHA256,
    options_path,
    read_options,
)
from albert_tf.tasks.training_options import fixed_length
from albert_tf.tokenization import Tokenizer
from albert_tf.training import (
    Evaluator,
    Trainer,
    TrainingPlan,
    best_checkpoint,
    best_metrics,
    make_strategy,
    train,
)
from albert_tf.training.evaluator import Loss
from albert_tf.training.reports import read_reports

# Of a training whose user does not say how often: enough that the best checkpoint is a choice, and early
# stopping can stop.
_EVALUATIONS = 10

# With fewer, one example moves the accuracy by more than a percent.
_FEW_EXAMPLES = 100

# The name under which an evaluation reports whether the model is collapsed, 0 or 1.
COLLAPSED = "collapsed"


def check_folder(options: FineTuningOptions, config: AlbertConfig, tokenizer: Tokenizer) -> None:
    """Checks that the exported model, or the checkpoints of the output folder, fit the run.

    Args:
        options: the run's options.
        config: the encoder's.
        tokenizer: of the run.

    Raises:
        InputError: they are of another model, another vocabulary or other options.
    """
    if not options.exported_model:
        if not has_checkpoint(options):
            return
        of_training = options.OF_TRAINING if options.do_train else ()
        check_output_dir(options, config, (*options.OF_WEIGHTS, *of_training))
    if _trained_vocabulary(options, tokenizer) != tokenizer.vocabulary_sha256:
        raise InputError(
            f"{options.model_flag}: was trained with another vocabulary than "
            f"{tokenizer.vocabulary_file}"
        )


def _trained_vocabulary(options: FineTuningOptions, tokenizer: Tokenizer) -> str | None:
    """Returns the SHA-256 of the vocabulary that the folder's model was trained with."""
    path = options_path(options.model_dir)
    noted = read_options(path).get(VOCABULARY_SHA256) if tf.io.gfile.exists(path) else None
    copy = os.path.join(options.model_dir, tokenizer.file_name)
    if noted or not tf.io.gfile.exists(copy):
        return noted
    # Earlier versions recorded no checksum, models exported in Python have no run options, and users may
    # have removed a damaged file.
    return files.sha256(copy)


def make_fine_tuner(
    options: FineTuningOptions,
    config: AlbertConfig,
    make_model: Callable[[AlbertEncoder, int], keras.Model],
    loss: Loss,
    num_examples: int,
) -> Evaluator:
    """Makes a model and what runs it: a `Trainer` where the options say `--do_train`.

    Args:
        options: the run's options.
        config: the encoder's.
        make_model: puts a head on an encoder; its second argument is the head's seed.
        loss: of the model.
        num_examples: to train on.

    Raises:
        FlagError: the batch cannot be cut into parts of one size.
    """

    def make() -> keras.Model:
        encoder = AlbertEncoder(config, seed=options.random_seed, dtype=options.mixed_precision)
        return make_model(encoder, options.random_seed + 1)

    num_train_steps = _count_train_steps(options, num_examples)
    warmup_steps = count_warmup_steps(options, num_examples)
    return make_evaluator(options, make, loss, num_train_steps, warmup_steps)


def count_warmup_steps(options: FineTuningOptions, num_examples: int) -> int:
    """Returns in how many updates the learning rate of a training on some examples reaches its peak."""
    if options.warmup_steps is not None:
        return options.warmup_steps
    return int(_count_train_steps(options, num_examples) * options.warmup_proportion)


def _count_train_steps(options: FineTuningOptions, num_examples: int) -> int:
    """Returns how many updates the training has; 0 where there is none."""
    if not options.do_train:
        return 0
    if options.num_train_steps is not None:
        return options.num_train_steps
    return max(1, round(num_examples * options.num_train_epochs / options.train_batch_size))


def load_exported(
    options: FineTuningOptions,
    read_outputs: Callable[[Mapping[str, tf.Tensor]], Any],
    loss: Loss,
) -> Evaluator:
    """Makes what runs `--exported_model`.

    Args:
        options: the run's options.
        read_outputs: gives of the exported model's outputs what the model returned.
        loss: of the model.

    Raises:
        InputError: it cannot be loaded.
    """
    strategy = make_strategy(options.distribution_strategy, options.tpu)
    try:
        with strategy.scope():
            model = ExportedModel(options.exported_model, read_outputs)
    except InputError as error:
        raise InputError(f"--exported_model={error}") from error
    return Evaluator(model, loss, strategy)


def load_best_checkpoint(options: FineTuningOptions, model: keras.Model) -> None:
    """Reads the best checkpoint of `--output_dir` into a model, and rounds as `--export_weights` says.

    An exported model has its weights.

    Raises:
        InputError: there is none, or it is of another model.
    """
    if options.exported_model:
        return
    load_checkpoint(model, best_checkpoint(options.output_dir)).check_complete()
    if options.export_weights == "int8":
        round_to_int8(model)


def export_details(
    options: FineTuningOptions,
    tokenizer: Tokenizer,
    metrics: Mapping[str, float],
    assets: Mapping[str, bytes],
) -> ExportDetails:
    """Returns the files and figures of an exported model, so that `--exported_model` needs no other flag.

    Args:
        options: the run's options.
        tokenizer: of the run.
        metrics: of an evaluation of the exported model; empty without one.
        assets: the task's own files.
    """
    of_model = {name: getattr(options, name) for name in options.OF_MODEL}
    of_model[VOCABULARY_SHA256] = tokenizer.vocabulary_sha256
    # What LiteRT's converter makes of the model is not evaluated.
    evaluated = {"saved_model": "as exported", "tflite": "before the conversion"}
    evaluations = {
        evaluated[options.export_format]: metrics,
        "best checkpoint in training": best_metrics(options.output_dir),
    }
    return ExportDetails(
        options.export_format,
        options.export_weights,
        {OPTIONS_FILE: json_asset(of_model), **assets},
        {name: of_one for name, of_one in evaluations.items() if of_one},
    )


@contextlib.contextmanager
def prepare_folder(
    options: FineTuningOptions,
    config: AlbertConfig,
    trainer: Trainer,
    tokenizer: Tokenizer,
    head_bias: keras.Variable,
) -> Iterator[None]:
    """Sets the weights that training starts from and describes the run in the output folder.

    Within, no other training runs in it.

    Args:
        options: the run's options.
        config: the encoder's.
        trainer: of the whole model.
        tokenizer: of the run.
        head_bias: a variable of the head, which tells whether `--init_checkpoint` has the same one.

    Raises:
        InputError: a checkpoint cannot be read or is of another model; a folder cannot be made; or
            another training runs in it.
    """
    starting_part = _starting_part(options, trainer.model, head_bias)
    with start_or_resume(options, config, trainer, starting_part, tokenizer):
        if options.export_dir:
            # So that hours of training do not end at a folder that cannot be made.
            files.make_directory(options.export_dir)
        _copy_vocabulary(options, tokenizer)
        yield


def fine_tune(
    options: FineTuningOptions,
    trainer: Trainer,
    features: Features,
    description: str,
    metric: str,
    best_metric: str,
    evaluate: Callable[[], dict[str, float]] | None,
    num_dev_examples: int,
) -> None:
    """Trains to the end of the plan.

    Args:
        options: the run's options.
        trainer: at its first step, or where the folder's checkpoint is.
        features: the examples.
        description: what progress calls the run.
        metric: what the learning curve shows beside the loss.
        best_metric: what picks the best checkpoint; higher is better.
        evaluate: returns metrics of held-out data; None where there is none.
        num_dev_examples: how many examples `evaluate` scores.
    """
    if options.train_batch_size > len(features):
        print(
            f"warning: --train_batch_size={options.train_batch_size}: there are {len(features)} training "
            "examples, so every update has some of them more than once",
            file=sys.stderr,
        )
    if evaluate is not None and num_dev_examples < _FEW_EXAMPLES:
        print(
            f"warning: {num_dev_examples} dev examples pick the best checkpoint; with fewer than "
            f"{_FEW_EXAMPLES} that choice is mostly chance",
            file=sys.stderr,
        )
    num_train_steps = _count_train_steps(options, len(features))
    if options.save_checkpoints_steps is None:
        every = math.ceil(num_train_steps / _EVALUATIONS)
        options = dataclasses.replace(options, save_checkpoints_steps=every)
    plan = TrainingPlan(options, description, num_train_steps, best_metric, higher_is_better=True)
    batches_from = functools.partial(
        training_batches,
        features,
        options.train_batch_size,
        options.random_seed,
        fixed_length=fixed_length(options),
    )
    _train_until_no_better(options, trainer, plan, batches_from, evaluate)
    if has_collapsed(options.output_dir):
        print(
            f"warning: the training in {options.output_dir} has collapsed: after the warm-up all dev "
            "predictions are alike, and the loss is that of guessing; start again with another "
            "--random_seed, a lower --learning_rate or a longer warm-up",
            file=sys.stderr,
        )
    if path := draw_learning_curve(options.output_dir, metric):
        print(f"learning curve in {path}")


def has_collapsed(output_dir: str) -> bool:
    """Returns whether a training was collapsed in all its evaluations after the warm-up."""
    evaluations = [line for line in read_reports(output_dir) if line["split"] == "eval"]
    after_warmup = [line[COLLAPSED] for line in evaluations if COLLAPSED in line]
    return bool(after_warmup) and all(after_warmup)


def _train_until_no_better(
    options: FineTuningOptions,
    trainer: Trainer,
    plan: TrainingPlan,
    batches_from: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    """Trains to the end of the plan or, with early stopping, until evaluations bring nothing better."""
    patience = options.early_stopping_evaluations
    if patience is None or evaluate is None:
        train(trainer, plan, batches_from, evaluate)
        return
    every = plan.options.save_checkpoints_steps
    while not _brought_nothing_better(trainer.step, plan, patience * every):
        end = min(trainer.step - trainer.step % every + every, plan.num_train_steps)
        train(trainer, dataclasses.replace(plan, num_train_steps=end), batches_from, evaluate)
        if trainer.step >= plan.num_train_steps:
            return


def _brought_nothing_better(step: int, plan: TrainingPlan, patience_steps: int) -> bool:
    best = plan.best.metrics
    if best is None or step - best["step"] < patience_steps:
        return False
    print(f"stopped at step {step}: no evaluation was better since step {best['step']}")
    return True


def _starting_part(
    options: FineTuningOptions, model: keras.Model, head_bias: keras.Variable
) -> keras.Model:
    """Returns what `--init_checkpoint` is read into: the model, or its encoder where it has no head.

    Raises:
        InputError: it has a head of another number of classes.
    """
    if not options.init_checkpoint or options.reset_head or has_checkpoint(options):
        return model.encoder
    with name_place("--init_checkpoint"):
        shape = stored_shape(options.init_checkpoint, head_bias.path)
    if shape is None:
        return model.encoder
    if shape != tuple(head_bias.shape):
        raise InputError(
            f"--init_checkpoint={options.init_checkpoint}: has a head with {shape[0]} outputs; this "
            f"task has {head_bias.shape[0]}; --reset_head starts the head anew"
        )
    return model


def _copy_vocabulary(options: FineTuningOptions, tokenizer: Tokenizer) -> None:
    """Puts the vocabulary beside the checkpoints, so that prediction needs the folder alone."""
    content = files.read_bytes(tokenizer.vocabulary_file)
    files.write_bytes(os.path.join(options.output_dir, tokenizer.file_name), content)
