"""The training loop: reports, evaluation, checkpoints, resuming and rollbacks.

A run writes to its folder:

    ckpt-*, checkpoint     the newest checkpoints, with the optimizer's state
    best/                  the weights with the best evaluation, and their metrics
    metrics.jsonl          one line per report: step, split, metrics
    bad_steps.jsonl        one line per skipped step: step, records
    train/, eval/          the same metrics as TensorBoard summaries

A killed run loses the updates after its newest checkpoint, and `metrics.jsonl` loses their reports when
the run resumes. TensorBoard, which can only append, shows them twice. A rollback does the same.
"""

import math
import sys
from collections.abc import Callable

import tensorflow as tf

from albert_tf.checkpoints.folder import BEST_DIR
from albert_tf.errors import InputError, Preempted
from albert_tf.training.bad_steps import BadSteps, NameRecords
from albert_tf.training.checkpoint_manager import BestCheckpoint, Checkpoints
from albert_tf.training.interruptions import Preemption
from albert_tf.training.plan import TrainingPlan
from albert_tf.training.reports import Interval, Reports
from albert_tf.training.spikes import Spike, SpikeWatch
from albert_tf.training.trainer import Trainer


def best_metrics(output_dir: str) -> dict[str, float] | None:
    """Returns the metrics of a run's best checkpoint; None if nothing was evaluated."""
    return BestCheckpoint(f"{output_dir}/{BEST_DIR}").metrics


def resume(trainer: Trainer, output_dir: str) -> bool:
    """Restores the newest checkpoint of a run's folder.

    Returns:
        Whether there is a checkpoint.

    Raises:
        InputError: all checkpoints are damaged, or one is of another model or optimizer.
    """
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
) -> None:
    """Trains from the trainer's step to the end of the plan.

    Args:
        trainer: trainer at its first step, or as `resume` left it.
        plan: how long to train, and when to report, evaluate and save.
        batches_from: returns the batches from a number on, counted from 0; reproducible.
        evaluate: returns the metrics of held-out data; None for no evaluation.
        name_records: finds the records of bad batches; None if records have no names.

    Raises:
        InputError: too many consecutive steps were skipped, or a metric of an evaluation is not finite.
        StoppedError: a file cannot be written.
        Preempted: SIGTERM or Ctrl-C was received. The current step has been saved.
    """
    _Run(trainer, plan, batches_from, evaluate, name_records).run()


class _Run:
    """One call of `train`, with the same arguments."""

    def __init__(
        self,
        trainer: Trainer,
        plan: TrainingPlan,
        batches_from: Callable[[int], tf.data.Dataset],
        evaluate: Callable[[], dict[str, float]] | None,
        name_records: NameRecords | None,
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
        )
        self._first_step = trainer.step
        self._preemption = Preemption(trainer.is_alone)
        self._bad_steps = BadSteps(options.max_bad_steps, options.output_dir, name_records)
        self._spikes = SpikeWatch(
            options.spike_threshold, trainer.history, trainer.derive, trainer.trust_ratio_paths
        )

    def run(self) -> None:
        """Trains to the end of the plan."""
        step, end = self._trainer.step, self._plan.num_train_steps
        # The learning curve starts at step 0, and a run may be killed before an evaluation.
        lacks_evaluation = self._evaluate_model is not None and not self._reports.has("eval", step)
        if step >= end and not lacks_evaluation:
            print(f"{self._plan.description}: {step} of {end} steps are done already")
            return
        with self._reports, self._preemption:
            try:
                if lacks_evaluation:
                    self._evaluate()
                if self._plan.options.on_spike == "rewind" and self._checkpoints.latest is None:
                    self._save(step)
                while self._trainer.step < end:
                    self._train_until_spike()
            except Preempted:
                self._wait_for_checkpoint()
                raise
            self._wait_for_checkpoint()

    def _train_until_spike(self) -> None:
        """Trains to the end of the plan, or to a spike and its rollback."""
        trainer, plan = self._trainer, self._plan
        step = trainer.step
        batches = trainer.distribute(self._batches_from(step + trainer.history.ahead))
        interval = Interval(compiles=step == self._first_step)
        while step < plan.num_train_steps:
            count = plan.steps_after(step)
            means = trainer.train_steps(batches, count)
            step += count
            interval.add(means, count)
            self._bad_steps.add(step, means["skipped_updates"])
            self._spikes.add(step, means)
            is_preempted = trainer.any_worker(self._preemption.requested)
            saves = plan.saves_at(step) or is_preempted
            if not saves and step % plan.options.log_steps:
                self._reports.advance(step)
                continue
            self._bad_steps.check(trainer.history.ahead - 1, trainer.is_chief)
            if spike := self._find_spike():
                self._roll_back(spike)
                return
            self._report(step, interval)
            # The weights may be what made the gradient infinite.
            saves &= step == plan.num_train_steps or not self._bad_steps.in_a_row
            if saves:
                self._save(step)
            if is_preempted:
                self._preemption.end()
            if saves and self._evaluate_model is not None:
                self._evaluate()
            interval = Interval()

    def _find_spike(self) -> Spike | None:
        """Warns of spikes, and returns the first one if the run is to roll back."""
        for spike in self._spikes.find():
            if self._trainer.is_chief:
                print(f"warning: {spike}", file=sys.stderr)
            if self._plan.options.on_spike == "rewind":
                return spike
        return None

    def _roll_back(self, spike: Spike) -> None:
        """Rolls back to a checkpoint, to continue with the batches after the spike.

        It is the newest checkpoint or, if the run got no further than the last spike, one before that of
        the last rollback. All workers decide the same.
        """
        trainer, history = self._trainer, self._trainer.history
        rollback = history.plan_rollback(spike.step)
        self._wait_for_checkpoint()
        prefix = self._checkpoints.restore_before(rollback.before)
        # Wait until all workers have read it before removing the others.
        trainer.any_worker(False)
        history.record_rollback(rollback, trainer.step)
        if trainer.is_chief:
            self._checkpoints.remove_after(prefix)
            print(
                f"rolling back to step {trainer.step}; continuing with the batches after the spike",
                file=sys.stderr,
            )
        self._reports.roll_back(trainer.step)
        self._bad_steps.roll_back(trainer.step, trainer.is_chief)
        self._spikes.forget()

    def _save(self, step: int) -> None:
        if self._trainer.is_chief:
            self._checkpoints.start_saving(step)

    def _wait_for_checkpoint(self) -> None:
        """Waits until the chief has written its checkpoint."""
        if self._trainer.is_chief:
            self._checkpoints.wait()
        self._trainer.any_worker(False)

    def _report(self, step: int, interval: Interval) -> None:
        summary = interval.summarize(self._trainer)
        totals = {name: self._reports.last(name) + count for name, count in summary.counts.items()}
        details = {f"trust_ratio/{path}": ratio for path, ratio in summary.trust_ratios.items()}
        self._reports.write("train", step, summary.metrics | totals, summary.rates, details)
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
    best = plan.best.metrics
    if best is None:
        return True
    if plan.higher_is_better:
        return value > best[plan.best_metric]
    return value < best[plan.best_metric]


def _checked(metrics: dict[str, float], step: int) -> dict[str, float]:
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise InputError(
                f"step {step}: {name} is {value}; restart from an earlier checkpoint with a lower "
                "learning rate or a longer warm-up"
            )
    return metrics
