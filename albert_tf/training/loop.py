"""The training loop: reports, evaluation, checkpoints and resuming.

A run writes to its folder:

    ckpt-*, checkpoint     the newest checkpoints, with the optimizer's state
    best/                  the weights with the best evaluation, and their metrics; without evaluations
                           those of the end
    metrics.jsonl          one line per report: step, split, metrics
    interval.jsonl         in a run that was stopped: what the next report will count
    bad_steps.jsonl        one line per skipped step: step, records
    train/, eval/          the same metrics as TensorBoard summaries

A killed run loses the updates after its newest checkpoint, and `metrics.jsonl` loses their reports when
the run resumes. TensorBoard, which can only append, shows them twice.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import tensorflow as tf

from albert_tf.errors import InputError, Preempted
from albert_tf.options import option
from albert_tf.sources import BEST_DIR
from albert_tf.training.bad_steps import BadSteps, NameRecords
from albert_tf.training.checkpoint_manager import (
    BestCheckpoint,
    Checkpoints,
    remove_temporary_files,
)
from albert_tf.training.interruptions import Preemption
from albert_tf.training.reports import Interval, Reports, forget_interval
from albert_tf.training.trainer import Trainer

# Receives a number of updates and the metrics reported after them, such as `train_loss`.
Callback = Callable[[int, Mapping[str, float]], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """The options of the training loop, which are the same for every task."""

    output_dir: str = option("Folder for checkpoints, metrics, summaries and results.")
    save_checkpoints_steps: int = option(
        "Number of updates between two evaluations and checkpoints.", 1000, least=1
    )
    keep_checkpoint_max: int = option("Number of most recent checkpoints to keep.", 5, least=1)
    keep_checkpoint_every_n_hours: float | None = option(
        "Additionally keep one checkpoint per this many hours. Default: none.", None, least=0
    )
    max_bad_steps: int = option(
        "Number of consecutive steps that may be skipped because their loss or gradient is not "
        "finite. One more ends the run.",
        10,
        least=0,
    )
    log_steps: int = option("Number of updates between two reports of metrics.", 100, least=1)
    steps_per_loop: int = option(
        "Maximum number of updates per call to the device. Larger values suit TPUs.", 1, least=1
    )


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """How long to train, and how to choose the best checkpoint.

    Attributes:
        options: options of the training loop.
        description: name of the run in progress lines.
        num_train_steps: total number of updates, including those before a restart.
        best_metric: evaluation metric that selects the best checkpoint.
        higher_is_better: whether a higher `best_metric` is better.
    """

    options: LoopOptions
    description: str
    num_train_steps: int
    best_metric: str
    higher_is_better: bool

    def steps_after(self, step: int) -> int:
        """Returns the number of updates after `step` until the host has something to do."""
        options = self.options
        intervals = (options.log_steps, options.save_checkpoints_steps)
        return min(
            options.steps_per_loop,
            self.num_train_steps - step,
            *(interval - step % interval for interval in intervals),
        )

    def saves_at(self, step: int) -> bool:
        """Returns whether an evaluation and a checkpoint follow `step`."""
        return step == self.num_train_steps or step % self.options.save_checkpoints_steps == 0

    def reports_at(self, step: int) -> bool:
        """Returns whether a report of the training follows `step`."""
        return self.saves_at(step) or step % self.options.log_steps == 0

    @property
    def best(self) -> BestCheckpoint:
        """The best checkpoint of the run."""
        return BestCheckpoint(f"{self.options.output_dir}/{BEST_DIR}")


def best_metrics(output_dir: str) -> dict[str, float] | None:
    """Returns the metrics of a run's best checkpoint; None if there is none yet."""
    return BestCheckpoint(f"{output_dir}/{BEST_DIR}").metrics


def resume(trainer: Trainer, output_dir: str) -> bool:
    """Restores the newest checkpoint of a run's folder, and removes the temporary files of killed runs.

    Returns:
        Whether there is a checkpoint.
    """
    if trainer.is_chief:
        for folder in (output_dir, f"{output_dir}/{BEST_DIR}"):
            remove_temporary_files(folder)
    if not Checkpoints(output_dir, trainer.state, max_to_keep=1).restore_latest():
        return False
    if trainer.is_chief:
        print(f"resuming {output_dir} from step {trainer.step}")
    return True


def train(
    trainer: Trainer,
    plan: TrainingPlan,
    batches_from: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[], dict[str, float]] | None,
    name_records: NameRecords | None = None,
    callback: Callback | None = None,
) -> None:
    """Trains from the trainer's step to the end of the plan.

    Args:
        trainer: trainer at its first step, or as `resume` left it.
        plan: how long to train, and when to report, evaluate and save.
        batches_from: returns the batches from a number on, counted from 0; reproducible.
        evaluate: returns the metrics of held-out data; None for no evaluation.
        name_records: finds the records of bad batches; None if records have no names.
        callback: called by the chief after each report.
    """
    _Run(trainer, plan, batches_from, evaluate, name_records, callback).run()


class _Run:
    """One call of `train`, with the same arguments."""

    def __init__(
        self,
        trainer: Trainer,
        plan: TrainingPlan,
        batches_from: Callable[[int], tf.data.Dataset],
        evaluate: Callable[[], dict[str, float]] | None,
        name_records: NameRecords | None,
        callback: Callback | None,
    ):
        self._trainer = trainer
        self._plan = plan
        self._batches_from = batches_from
        self._evaluate_model = evaluate
        options = plan.options
        self._checkpoints = Checkpoints(
            options.output_dir,
            trainer.state,
            options.keep_checkpoint_max,
            options.keep_checkpoint_every_n_hours,
        )
        self._reports = Reports(
            options.output_dir,
            plan.description,
            plan.num_train_steps,
            trainer.step,
            trainer.is_chief,
            callback,
        )
        self._preemption = Preemption(trainer.is_alone)
        self._bad_steps = BadSteps(options.max_bad_steps, options.output_dir, name_records)

    def run(self) -> None:
        """Trains to the end of the plan."""
        step, end = self._trainer.step, self._plan.num_train_steps
        # The learning curve starts at step 0, and a run may be killed before an evaluation.
        lacks_evaluation = (
            self._evaluate_model is not None
            and (step == 0 or self._plan.saves_at(step))
            and not self._reports.has("eval", step)
        )
        if step >= end and not lacks_evaluation:
            print(f"{self._plan.description}: {step} of {end} steps are done already")
            return
        with self._reports, self._preemption:
            try:
                if lacks_evaluation:
                    self._evaluate()
                if step < end:
                    self._train(step)
            except Preempted:
                self._wait_for_checkpoint()
                raise
            self._wait_for_checkpoint()
            if self._trainer.is_chief:
                self._clean_up()

    def _clean_up(self) -> None:
        """Leaves the folder of a complete run as its readers expect it."""
        plan, trainer = self._plan, self._trainer
        if self._evaluate_model is None:
            plan.best.replace(trainer.model, trainer.step, {})
        forget_interval(plan.options.output_dir)

    def _train(self, step: int) -> None:
        trainer, plan = self._trainer, self._plan
        batches = trainer.distribute(self._batches_from(step))
        interval = Interval.resume(plan.options.output_dir, step)
        while step < plan.num_train_steps:
            count = plan.steps_after(step)
            means = trainer.train_steps(batches, count)
            step += count
            interval.add(means, count)
            self._bad_steps.add(step, means["skipped_updates"])
            is_preempted = trainer.any_worker(self._preemption.requested)
            reports = plan.reports_at(step)
            if not (reports or is_preempted):
                self._reports.advance(step)
                continue
            self._bad_steps.check(trainer.is_chief)
            saves = plan.saves_at(step) or is_preempted
            # The weights may be what made the gradient infinite.
            saves &= step == plan.num_train_steps or not self._bad_steps.in_a_row
            evaluates = saves and not is_preempted and self._evaluate_model is not None
            if reports:
                self._report(step, interval, is_last=not evaluates)
            if saves:
                self._save(step)
            if is_preempted:
                if saves and not reports and trainer.is_chief:
                    interval.save(plan.options.output_dir, step)
                self._preemption.end()
            if evaluates:
                self._evaluate()
            interval = Interval()

    def _save(self, step: int) -> None:
        if self._trainer.is_chief:
            self._checkpoints.start_saving(step)

    def _wait_for_checkpoint(self) -> None:
        """Waits until the chief has written its checkpoint."""
        if self._trainer.is_chief:
            self._checkpoints.wait()
        self._trainer.any_worker(False)

    def _report(self, step: int, interval: Interval, is_last: bool) -> None:
        summary = interval.summarize(self._trainer)
        totals = {name: self._reports.last(name) + count for name, count in summary.counts.items()}
        self._reports.write("train", step, summary.metrics | totals, summary.rates, is_last)
        self._checkpoints.check()

    def _evaluate(self) -> None:
        """Evaluates, keeps the weights if they are the best so far, and then reports.

        The report comes last because a reported step is not evaluated again after a restart.
        """
        trainer, plan, step = self._trainer, self._plan, self._trainer.step
        with self._preemption.nothing_to_save():
            metrics = _checked(self._evaluate_model(), step)
            # Untrained weights are never the best.
            if trainer.is_chief and step > 0 and _is_best(plan, metrics[plan.best_metric]):
                plan.best.replace(trainer.model, step, metrics)
            self._reports.write("eval", step, metrics)


def _is_best(plan: TrainingPlan, value: float) -> bool:
    best = (plan.best.metrics or {}).get(plan.best_metric)
    if best is None:
        return True
    return value > best if plan.higher_is_better else value < best


def _checked(metrics: dict[str, float], step: int) -> dict[str, float]:
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise InputError(
                f"step {step}: {name} is {value}; restart from an earlier checkpoint with a lower "
                "learning rate or a longer warm-up"
            )
    return metrics
