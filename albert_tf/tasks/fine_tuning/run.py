"""A fine-tuning run of any task: trains, evaluates, predicts and exports.

Everything is read and checked before a model is made, so that mistakes show at once.
"""

import dataclasses
import functools
import math
import os
import sys
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.folder import best_checkpoint
from albert_tf.checkpoints.loading import load_checkpoint, stored_shape
from albert_tf.config import AlbertConfig
from albert_tf.data.batches import make_batch, training_batches
from albert_tf.errors import InputError, name_place
from albert_tf.export import ExportDetails, ExportedModel
from albert_tf.export.exportable import OF_RUNTIMES
from albert_tf.export.runtimes.runtime import Predict
from albert_tf.export.saved_models.ids_model import INPUTS
from albert_tf.export.version_folders import json_asset
from albert_tf.export.weights import round_to_int8
from albert_tf.models import AlbertEncoder
from albert_tf.tasks.common import (
    check_output_dir,
    has_checkpoint,
    load_config,
    make_evaluator,
    start_or_resume,
    write_results,
)
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.task import FineTuningTask
from albert_tf.tasks.fine_tuning.trials import COLLAPSED, has_collapsed, run_trials, trials_of
from albert_tf.tasks.flags import check_vocab_size
from albert_tf.tasks.learning_curve import draw_learning_curve
from albert_tf.tasks.trained_folder import (
    OPTIONS_FILE,
    VOCABULARY_SHA256,
    options_path,
    read_options,
    with_version,
)
from albert_tf.tasks.training_options import fixed_length
from albert_tf.tokenization import Tokenizer
from albert_tf.training import (
    Evaluator,
    TrainingPlan,
    best_metrics,
    make_strategy,
    train,
)

# Evaluations of a training unless the user sets their interval: enough to choose a checkpoint from, and
# for early stopping.
_EVALUATIONS = 10

# With fewer dev examples, one of them moves the accuracy by more than a percent.
_FEW_EXAMPLES = 100

# NNCF's own default.
_CALIBRATION_EXAMPLES = 300


def run_task(
    options: FineTuningOptions,
    make_task: Callable[[FineTuningOptions, Tokenizer], FineTuningTask],
) -> dict[str, float]:
    """Trains, evaluates, predicts and exports, as the options say.

    Args:
        options: complete options, see `FineTuningOptions.fill`.
        make_task: reads the data of the run.

    Returns:
        The metrics of the best checkpoint on the dev set, with `--num_trials` their medians; empty
        without `--do_eval`.

    Raises:
        InputError: a file, an example or a checkpoint contradicts the options.
    """
    config, task = _prepare(options, make_task)

    def run_one(options: FineTuningOptions) -> dict[str, float]:
        return _Run(dataclasses.replace(task, options=options), config).run()

    return run_trials(options, run_one) if options.num_trials > 1 else run_one(options)


def load_trained(
    options: FineTuningOptions,
    make_task: Callable[[FineTuningOptions, Tokenizer], FineTuningTask],
) -> tuple[FineTuningTask, Evaluator]:
    """Loads a trained model as `run_task` does, for predictions in Python.

    Args:
        options: complete options without training, see `FineTuningOptions.fill`.
        make_task: makes the task, without data.

    Returns:
        The task, and what runs its best checkpoint or the exported model.

    Raises:
        InputError: the folder holds no complete model.
    """
    config, task = _prepare(options, make_task)
    run = _Run(task, config)
    if not options.exported_model:
        run.load_best_checkpoint()
    return task, run.evaluator


def _prepare(
    options: FineTuningOptions,
    make_task: Callable[[FineTuningOptions, Tokenizer], FineTuningTask],
) -> tuple[AlbertConfig, FineTuningTask]:
    """Reads and checks everything that a run needs but the weights."""
    config = load_config(options)
    tokenizer = options.load_tokenizer()
    check_vocab_size(tokenizer, config, options.albert_config_file)
    for trial in trials_of(options):
        _check_folder(trial, config, tokenizer)
    return config, make_task(options, tokenizer)


def _check_folder(options: FineTuningOptions, config: AlbertConfig, tokenizer: Tokenizer) -> None:
    """Checks that the exported model, or the checkpoints in the output folder, fit the run.

    Raises:
        InputError: they have another config, another vocabulary or other options.
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
    if tf.io.gfile.exists(path):
        return read_options(path).get(VOCABULARY_SHA256)
    # Models exported in Python have no run options, and users may have removed a damaged file.
    copy = os.path.join(options.model_dir, tokenizer.file_name)
    return files.sha256(copy) if tf.io.gfile.exists(copy) else None


class _Run:
    """One training, or what follows one, of a task whose data are read."""

    def __init__(self, task: FineTuningTask, config: AlbertConfig):
        self.task = task
        self.options = task.options
        self.config = config
        task.check_labels()
        self.num_train_steps = self._count_train_steps()
        self.warmup_steps = self.options.warmup_steps
        if self.warmup_steps is None:
            self.warmup_steps = int(self.num_train_steps * self.options.warmup_proportion)
        self.evaluator = self._load_exported() if self.options.exported_model else self._make()

    def run(self) -> dict[str, float]:
        """Does what the options ask for and returns the metrics of `--do_eval`."""
        options, task, evaluator = self.options, self.task, self.evaluator
        if options.do_train:
            self._train()
        if not options.exported_model:
            self.load_best_checkpoint()
        if options.do_train or options.do_eval:
            task = task.fit(evaluator)
        metrics = {}
        if options.do_eval:
            metrics, predictions = task.evaluate(evaluator)
            write_results(options, metrics)
            task.write_evaluation(metrics, predictions)
        if options.do_predict:
            files.make_directory(options.output_dir)
            task.predict(evaluator)
        if options.export_dir:
            paths = task.export(evaluator.model, self._export_details(metrics))
            print("\n".join(f"exported {path}" for path in paths.values()))
        task.predict_lines(evaluator.model)
        return metrics

    def _count_train_steps(self) -> int:
        options = self.options
        if not options.do_train:
            return 0
        if options.num_train_steps is not None:
            return options.num_train_steps
        num_examples = len(self.task.train_features)
        return max(1, round(num_examples * options.num_train_epochs / options.train_batch_size))

    def _make(self) -> Evaluator:
        """Makes the model and what runs it: a `Trainer` with `--do_train`."""
        options, task = self.options, self.task
        seed, dtype = options.random_seed, options.mixed_precision

        def make_model() -> keras.Model:
            return task.make_model(AlbertEncoder(self.config, seed=seed, dtype=dtype), seed + 1)

        return make_evaluator(
            options, make_model, task.loss, self.num_train_steps, self.warmup_steps
        )

    def _load_exported(self) -> Evaluator:
        options, task = self.options, self.task
        strategy = make_strategy(options.distribution_strategy, options.tpu)
        try:
            with strategy.scope():
                model = ExportedModel(options.exported_model, task.read_exported)
        except InputError as error:
            raise InputError(f"--exported_model={error}") from error
        return Evaluator(model, task.loss, strategy)

    def load_best_checkpoint(self) -> None:
        """Loads the best checkpoint of `--output_dir`, and rounds it as `--export_weights` says."""
        model = self.evaluator.model
        load_checkpoint(model, best_checkpoint(self.options.output_dir)).check_complete()
        if self.options.export_weights == "int8" and not self._evaluates_file:
            round_to_int8(model)

    @property
    def _evaluates_file(self) -> bool:
        """Whether the exported file is evaluated, rather than a model like it."""
        return self.options.export_format in OF_RUNTIMES

    def _export_details(self, metrics: dict[str, float]) -> ExportDetails:
        """Returns the assets and figures that make `--exported_model` need no other flag."""
        options = self.options
        of_model = {name: getattr(options, name) for name in options.OF_MODEL}
        of_model[VOCABULARY_SHA256] = self.task.tokenizer.vocabulary_sha256
        # Other formats are converted after this evaluation.
        is_exported = options.export_format == "saved_model"
        evaluations = {
            "as exported" if is_exported else "before the conversion": metrics,
            "best checkpoint in training": best_metrics(options.output_dir),
        }
        return ExportDetails(
            options.export_format,
            options.export_weights,
            {OPTIONS_FILE: json_asset(with_version(of_model)), **self.task.assets()},
            {name: values for name, values in evaluations.items() if values},
            self._calibration_inputs() if options.calibrates else (),
            self._evaluate_exported if options.do_eval and self._evaluates_file else None,
        )

    def _calibration_inputs(self) -> list[dict[str, np.ndarray]]:
        """Returns some examples of the training set, or of the dev set if there is no training."""
        features = self.task.train_features or self.task.dev_features
        count = min(len(features), _CALIBRATION_EXAMPLES)
        rng = np.random.default_rng(self.options.random_seed)
        examples = rng.choice(len(features), count, replace=False)
        batches = (make_batch(features, examples[[index]]) for index in range(count))
        return [{name: batch[name] for name in INPUTS} for batch in batches]

    def _evaluate_exported(self, predict: Predict) -> dict[str, float]:
        """Returns the metrics of an exported file on the dev set."""
        task = self.task

        def model(batch, training):
            return task.read_exported(predict(batch))

        # Other runtimes know nothing of the devices of the training.
        metrics, _ = task.evaluate(Evaluator(model, task.loss, tf.distribute.get_strategy()))
        return metrics

    def _train(self) -> None:
        """Trains from the newest checkpoint or `--init_checkpoint` to the end of the plan."""
        options, task, trainer = self.options, self.task, self.evaluator
        part = self._starting_part()
        with start_or_resume(options, self.config, trainer, part, task.tokenizer):
            if options.export_dir:
                # Otherwise hours of training could end at a folder that cannot be made.
                files.make_directory(options.export_dir)
            # So that prediction needs the folder alone.
            copy = os.path.join(options.output_dir, task.tokenizer.file_name)
            files.write_bytes(copy, task.tokenizer.vocabulary)
            task.write_label_metadata()
            self._warn_of_sizes()
            self._train_until_done()
        if has_collapsed(options.output_dir):
            print(
                f"warning: the training in {options.output_dir} has collapsed: after the warm-up all dev "
                "predictions are alike, and the loss is that of guessing; start again with another "
                "--random_seed, a lower --learning_rate or a longer warm-up",
                file=sys.stderr,
            )
        if path := draw_learning_curve(options.output_dir, task.metric):
            print(f"learning curve in {path}")
        task.finish_training(best_metrics(options.output_dir) or {})

    def _starting_part(self) -> keras.Model:
        """Returns what `--init_checkpoint` is loaded into: the model, or its encoder without a head.

        Raises:
            InputError: the checkpoint has a head with another number of outputs.
        """
        options, model = self.options, self.evaluator.model
        if not options.init_checkpoint or options.reset_head or has_checkpoint(options):
            return model.encoder
        encoder = {weight.path for weight in model.encoder.weights}
        head = (w for w in model.weights if w.name == "bias" and w.path not in encoder)
        bias = next(head, None)
        if bias is None:
            return model
        with name_place("--init_checkpoint"):
            shape = stored_shape(options.init_checkpoint, bias.path)
        if shape is None:
            return model.encoder
        if shape != tuple(bias.shape):
            raise InputError(
                f"--init_checkpoint={options.init_checkpoint}: has a head with {shape[0]} outputs; this "
                f"task has {bias.shape[0]}; --reset_head initialises a new head"
            )
        return model

    def _warn_of_sizes(self) -> None:
        options, task = self.options, self.task
        num_examples = len(task.train_features)
        if options.train_batch_size > num_examples:
            print(
                f"warning: --train_batch_size={options.train_batch_size}: there are {num_examples} "
                "training examples, so every update has some of them more than once",
                file=sys.stderr,
            )
        if 0 < task.num_dev_examples < _FEW_EXAMPLES:
            print(
                f"warning: {task.num_dev_examples} dev examples pick the best checkpoint; with fewer "
                f"than {_FEW_EXAMPLES} that choice is mostly chance",
                file=sys.stderr,
            )

    def _train_until_done(self) -> None:
        """Trains to the end of the plan or, with early stopping, until evaluations no longer improve."""
        options, trainer, steps = self.options, self.evaluator, self.num_train_steps
        if options.save_checkpoints_steps is None:
            every = math.ceil(steps / _EVALUATIONS)
            options = dataclasses.replace(options, save_checkpoints_steps=every)
        plan = TrainingPlan(
            options, self.task.name, steps, self.task.best_metric, higher_is_better=True
        )
        batches_from = functools.partial(
            training_batches,
            self.task.train_features,
            options.train_batch_size,
            options.random_seed,
            fixed_length=fixed_length(options),
        )
        evaluate = self._evaluate_in_training if self.task.num_dev_examples else None
        patience = options.early_stopping_evaluations
        if patience is None or evaluate is None:
            train(trainer, plan, batches_from, evaluate)
            return
        every = options.save_checkpoints_steps
        while not _has_stopped_improving(trainer.step, plan, patience * every):
            end = min(trainer.step - trainer.step % every + every, steps)
            train(trainer, dataclasses.replace(plan, num_train_steps=end), batches_from, evaluate)
            if trainer.step >= steps:
                return

    def _evaluate_in_training(self) -> dict[str, float]:
        """Returns the metrics and, after the warm-up, whether the model has collapsed."""
        metrics, predictions = self.task.evaluate(self.evaluator)
        if self.evaluator.step > self.warmup_steps:
            collapsed = self.task.is_collapsed(metrics, predictions)
            if collapsed is not None:
                metrics[COLLAPSED] = float(collapsed)
        return metrics


def _has_stopped_improving(step: int, plan: TrainingPlan, patience_steps: int) -> bool:
    best = plan.best.metrics
    if best is None or step - best["step"] < patience_steps:
        return False
    print(f"stopped at step {step}: no evaluation was better since step {best['step']}")
    return True
