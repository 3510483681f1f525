"""The trainings of a fine-tuning run, with early stopping and warnings of what spoils them."""

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import keras

from albert_tf import files
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.conversion import stored_part
from albert_tf.data.fine_tuning.batches import training_batches
from albert_tf.errors import InputError, name_place, warn
from albert_tf.losses import TARGETS
from albert_tf.model_folder import BEST_DIR, STATE_DIR
from albert_tf.options.resolution import Resolution, resolved
from albert_tf.tasks.fine_tuning.choices import RESTARTS, halve_rate, may_start_again
from albert_tf.tasks.fine_tuning.data import RunData
from albert_tf.tasks.fine_tuning.model import make_evaluator
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import measure_sets, predict_sets
from albert_tf.tasks.fine_tuning.teacher import fit_projection
from albert_tf.tasks.fine_tuning.trained_rows import TrainedRows
from albert_tf.tasks.noted_options import note_options
from albert_tf.tasks.output_folder import start_or_resume
from albert_tf.tasks.stored_run import StoredRun
from albert_tf.tasks.training_options import fixed_length
from albert_tf.tasks.training_run import warn_of_large_batch
from albert_tf.training import Trainer, TrainingPlan, best_metrics, draw_learning_curve, train
from albert_tf.training.loop import Callback, WriteBest
from albert_tf.training.reports import read_reports, remove_reports

# Name under which an evaluation in training reports whether the model has collapsed, 0 or 1.
_COLLAPSED = "collapsed"

# Evaluations of a training unless the user sets their interval: enough to choose a checkpoint from, and
# for early stopping.
_EVALUATIONS = 10

# Standard deviation of a new pooler's kernel, at most.
_POOLER_RANGE = 0.02

# With fewer dev examples the end of a chosen plan is better than the checkpoint they choose: by 0.7
# points with 200, see docs/measurements.md.
_FEW_TO_CHOOSE_BY = 500

# With fewer dev examples, one of them moves the accuracy by more than a percent.
_FEW_EXAMPLES = 100


class FineTuning:
    """The training of a run. One that has collapsed may start again.

    Args:
        values: the options of the run, with what was chosen.
        data: what it learns.
        config: that of the encoder.
        stored: the state that it resumes from; None for a new run.
        callback: called after each report.

    Attributes:
        trainer: the trainer of the model.
    """

    def __init__(
        self,
        values: Resolution[FineTuningOptions],
        data: RunData,
        config: AlbertConfig,
        stored: StoredRun | None,
        callback: Callback | None,
    ):
        self._values = values
        self._options = options = values.options()
        self._data = data
        self._config = config
        self._stored = stored
        self._callback = callback
        self._begun = stored.options if stored else {}
        self._restarts = 0 if options.recipe else self._begun.get(RESTARTS, 0)
        self._train_features = data.sets["train"][0].features
        self._batch_size = resolved(options.train_batch_size)
        steps, warmup_steps = options.num_train_steps, options.warmup_steps
        if steps is None:
            passes = resolved(options.num_train_epochs) * len(self._train_features)
            steps = max(1, round(passes / self._batch_size))
        if warmup_steps is None:
            warmup_steps = int(steps * resolved(options.warmup_proportion))
        self._num_steps, self._warmup_steps = steps, warmup_steps
        self.trainer = self._make_trainer()

    def run(self) -> None:
        """Trains from the newest checkpoint or `--init_checkpoint` to the end of the plan."""
        options, data, trainer = self._options, self._data, self.trainer
        part = None if self._stored else _starting_part(options, stored_part(trainer.model))
        drawn = self._draw_pooler()
        noted = {**note_options(self._values, self._begun), RESTARTS: self._restarts}
        batches_from = functools.partial(
            training_batches,
            self._train_features,
            self._batch_size,
            options.random_seed,
            fixed_length=fixed_length(options),
        )
        evaluate = self._evaluate if data.dev_set else None
        with start_or_resume(
            options,
            trainer,
            starting_part=part,
            tokenizer=data.tokenizer,
            kind=data.kind,
            noted=noted,
        ) as write_best:
            if trainer.is_chief:
                held_out = data.dev_set.examples if options.holds_out and data.dev_set else ()
                rows = TrainedRows.of(data.sets["train"][0].examples, held_out)
                rows.write(options.output_dir)
            for variable, value in drawn:
                variable.assign(value)
            if not self._stored:
                fit_projection(options, data, trainer)
            if options.export_dir:
                # Otherwise hours of training could end at a folder that cannot be made.
                files.make_directory(options.export_dir)
            self._warn_of_sizes()
            for plan in self._plans(write_best):
                train(trainer, plan, batches_from, evaluate, callback=self._callback)
        if _has_collapsed(options.output_dir) and not self.starts_again:
            warn(
                f"the training in {options.output_dir} has collapsed: after the warm-up all dev "
                "predictions are alike, and the loss is that of guessing; start again with another "
                "--random_seed, a lower --learning_rate or a longer warm-up"
            )
        if path := draw_learning_curve(options.output_dir, *data.kind.metrics[:1]):
            print(f"learning curve in {path}")

    @property
    def starts_again(self) -> bool:
        """Whether the training has collapsed, and another rate may be tried.

        Without pre-training it has rather not begun to learn, which no lower rate changes.
        """
        may_start = may_start_again(self._values, self._restarts)
        may_start = may_start and self._options.init_checkpoint is not None
        return may_start and _has_collapsed(self._options.output_dir)

    def start_again(self) -> None:
        """Removes what there is of the training, and halves the rate, for another `run`.

        The reports, which say that it has collapsed, go last: a run that is killed before does the same
        again.
        """
        folder = self._options.output_dir
        files.remove(f"{folder}/{BEST_DIR}")
        files.remove(f"{folder}/{STATE_DIR}")
        remove_reports(folder)
        halve_rate(self._values)
        self._options = self._values.options()
        self._stored = None
        self._restarts += 1
        self.trainer = self._make_trainer()

    def _make_trainer(self) -> Trainer:
        features = self._train_features
        trainer = make_evaluator(
            self._options,
            self._config,
            self._data.kind,
            num_train_steps=self._num_steps,
            num_warmup_steps=self._warmup_steps,
            targets={**features.labels, **features.token_labels}.get(TARGETS),
        )
        assert isinstance(trainer, Trainer)
        return trainer

    def _warn_of_sizes(self) -> None:
        options, dev_set = self._options, self._data.dev_set
        warn_of_large_batch(options, len(self._train_features), "training examples")
        if not dev_set:
            return
        count = f"{len(dev_set.examples)} dev examples"
        if self._keeps_last:
            print(f"{count} are too few to choose a checkpoint by: the last weights are kept")
        elif len(dev_set.examples) < _FEW_EXAMPLES:
            warn(
                f"{count} pick the best checkpoint; with fewer than {_FEW_EXAMPLES} that choice is "
                "mostly chance"
            )

    @property
    def _keeps_last(self) -> bool:
        """Whether the last weights are kept: a choice by few examples is worse than the end of the plan.

        It does not apply to a number of updates that the user chose, or asked to be ended early.
        """
        dev_set, options = self._data.dev_set, self._options
        is_few = dev_set is not None and len(dev_set.examples) < _FEW_TO_CHOOSE_BY
        asks = options.early_stopping_evaluations or options.best_metric
        return is_few and not asks and self._values.is_chosen("num_train_steps")

    def _draw_pooler(self) -> list[tuple[keras.Variable, Any]]:
        """Returns the variables of a new pooler with their values, before a checkpoint is loaded."""
        if not self._options.new_pooler or self._stored:
            return []
        # With the 0.04 of some models it learns less; BERT has 0.02.
        scale = min(1.0, _POOLER_RANGE / self._config.initializer_range)
        pooler = self.trainer.model.encoder.pooler
        return [(weight, scale * weight.numpy()) for weight in pooler.weights]

    def _plans(self, write_best: WriteBest) -> Iterator[TrainingPlan]:
        """Yields the plan or, with early stopping, its parts until evaluations no longer improve."""
        options, trainer, steps = self._options, self.trainer, self._num_steps
        every = options.save_checkpoints_steps or math.ceil(steps / _EVALUATIONS)
        plan = TrainingPlan(
            options=dataclasses.replace(options, save_checkpoints_steps=every),
            write_best=write_best,
            description=self._data.task.name,
            num_train_steps=steps,
            best_metric=self._data.best_metric,
            higher_is_better=self._data.higher_is_better,
            keeps_last=self._keeps_last,
        )
        patience = options.early_stopping_evaluations
        if patience is None or not self._data.dev_set:
            yield plan
            return
        if trainer.step and plan.saves_at(trainer.step) and not self._is_evaluated(trainer.step):
            # The run was stopped in an evaluation, which has to count.
            yield dataclasses.replace(plan, num_train_steps=trainer.step)
        while not _has_stopped_improving(trainer.step, plan, patience * every):
            end = min(trainer.step - trainer.step % every + every, steps)
            yield dataclasses.replace(plan, num_train_steps=end)
            if trainer.step >= steps:
                return

    def _is_evaluated(self, step: int) -> bool:
        """Returns whether an evaluation after a step was reported."""
        reports = read_reports(self._options.output_dir)
        return any(line["split"] == "eval" and line["step"] == step for line in reports)

    def _evaluate(self) -> dict[str, float]:
        """Returns the metrics and, after the warm-up, whether the model has collapsed."""
        data, dev_sets = self._data, self._data.sets["dev"]
        predictions = predict_sets(
            data.kind, sets=dev_sets, evaluator=self.trainer, options=self._options
        )
        # Thresholds that suit these weights; those of the best ones are chosen after the training.
        kind = data.kind.fit(dev_sets[0].examples, predictions[0])
        metrics, qualities = measure_sets(kind, dev_sets, predictions)
        collapsed = qualities[0].is_collapsed
        if self.trainer.step > self._warmup_steps and collapsed is not None:
            metrics[_COLLAPSED] = float(collapsed)
        return metrics


def _starting_part(options: FineTuningOptions, model: keras.Model) -> keras.Model:
    """Returns what `--init_checkpoint` is loaded into: the model, or its encoder without a head."""
    if not options.init_checkpoint or options.reset_head:
        return model.encoder
    encoder = {weight.path for weight in model.encoder.weights}
    head = (w for w in model.weights if w.name == "bias" and w.path not in encoder)
    bias = next(head, None)
    if bias is None:
        return model
    with name_place("--init_checkpoint"):
        # A name, too: a run that resumes had no need of the model, but has one if it starts again.
        shape = StoredModel.find(options.init_checkpoint).shape_of(bias.path)
    if shape is None:
        return model.encoder
    if shape != tuple(bias.shape):
        raise InputError(
            f"--init_checkpoint={options.init_checkpoint}: has a head with {shape[0]} outputs; this "
            f"task has {bias.shape[0]}; --reset_head initialises a new head"
        )
    return model


def _has_stopped_improving(step: int, plan: TrainingPlan, patience_steps: int) -> bool:
    best = best_metrics(plan.options.output_dir)
    if not best or step - best["step"] < patience_steps:
        return False
    print(f"stopped at step {step}: no evaluation was better since step {best['step']}")
    return True


def _has_collapsed(output_dir: str) -> bool:
    """Returns whether a model was collapsed in all evaluations after the warm-up."""
    evaluations = [line for line in read_reports(output_dir) if line["split"] == "eval"]
    after_warmup = [line[_COLLAPSED] for line in evaluations if _COLLAPSED in line]
    return bool(after_warmup) and all(after_warmup)
