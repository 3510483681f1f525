"""The training loop: reports, evaluation, checkpoints and resuming.

A run writes to its folder:

    state/                 the newest states of the model and the optimizer
    best/                  the model with the best evaluation, and its metrics; without evaluations that
                           of the end
    metrics.jsonl          one line per report: step, split, metrics
    train/, eval/          the same metrics as TensorBoard summaries

A killed run loses the updates after its newest state, and `metrics.jsonl` loses their reports when
the run resumes, so that it ends as that of a run without a stop. TensorBoard, which can only append,
shows them twice.
"""

import contextlib
import dataclasses
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from albert_tf import files, folders
from albert_tf.errors import InputError, Preempted, warn
from albert_tf.model_folder import BEST_DIR, STATE_DIR, find_best, read_own
from albert_tf.options.training import LoopOptions
from albert_tf.progress import Progress
from albert_tf.training.reports import BadSteps, Callback, Interval, Reports
from albert_tf.training.states import States
from albert_tf.training.trainer import BatchIterator, Trainer

# Writes the model to the folder of the best one, given the metrics and the step.
WriteBest = Callable[[Mapping[str, float]], None]

_STDERR = 2


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """How long to train, and how to choose the best model, which `write_best` writes."""

    options: LoopOptions
    write_best: WriteBest
    description: str  # name of the run in progress lines
    num_train_steps: int  # total number of updates, including those before a restart
    best_metric: str  # evaluation metric that selects the best model
    higher_is_better: bool
    keeps_last: bool = False  # whether each evaluation counts as the best so far

    def steps_after(self, step: int, steps_per_call: int) -> int:
        """Returns the number of updates after `step` until the host has something to do.

        `steps_per_call` is what suits the device.
        """
        options = self.options
        intervals = (options.log_steps, options.save_checkpoints_steps)
        return min(
            options.steps_per_loop or steps_per_call,
            self.num_train_steps - step,
            *(interval - step % interval for interval in intervals),
        )

    def saves_at(self, step: int) -> bool:
        """Returns whether an evaluation and a state follow `step`."""
        return step == self.num_train_steps or step % self.options.save_checkpoints_steps == 0

    def reports_at(self, step: int) -> bool:
        """Returns whether a report of the training follows `step`."""
        return self.saves_at(step) or step % self.options.log_steps == 0

    def is_best(self, metrics: Mapping[str, float]) -> bool:
        """Returns whether `best_metric` is better than the best model's, or as good with a lower loss."""
        best = best_metrics(self.options.output_dir)
        if self.keeps_last or self.best_metric not in best:
            return True
        sign = 1 if self.higher_is_better else -1
        new, old = ((sign * x[self.best_metric], -x.get("loss", 0.0)) for x in (metrics, best))
        return new > old


def best_metrics(output_dir: str) -> Mapping[str, float]:
    """Returns the metrics of a run's best model, and its step; empty if there is none yet."""
    folder = find_best(output_dir)
    return read_own(folder).get("metrics", {}) if folder else {}


def resume(trainer: Trainer, output_dir: str) -> None:
    """Restores a run's newest state, and removes the unfinished files of killed processes."""
    folder = f"{output_dir}/{STATE_DIR}"
    if trainer.is_chief:
        folders.clean_folder(f"{output_dir}/{BEST_DIR}")
        files.remove_unfinished(output_dir)
        files.remove_unfinished(folder)
    restored = States(folder, trainer.state, max_to_keep=1).restore_latest()
    if restored and trainer.is_chief:
        print(f"resuming {output_dir} from step {trainer.step}")


def train(
    trainer: Trainer,
    plan: TrainingPlan,
    batches_from: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[], dict[str, float]] | None,
    callback: Callback | None = None,
) -> None:
    """Trains from the trainer's step, which is 0 or that of `resume`, to the end of the plan.

    `batches_from` returns the same batches from a number on, counted from 0, each time; `evaluate` the
    metrics of held-out data. The chief calls `callback` after each report.
    """
    options, step, end = plan.options, trainer.step, plan.num_train_steps
    progress = Progress(plan.description, "steps", end, done=step)
    loop = _Loop(
        trainer=trainer,
        plan=plan,
        evaluate_model=evaluate,
        states=States(
            f"{options.output_dir}/{STATE_DIR}", trainer.state, options.keep_checkpoint_max
        ),
        reports=Reports(options.output_dir, progress, trainer.is_chief, callback),
        bad_steps=BadSteps(options.max_bad_steps),
        preemption=Preemption(trainer.is_alone),
    )
    # The learning curve starts at step 0, and a run may be killed before an evaluation.
    lacks_evaluation = (
        evaluate is not None
        and (step == 0 or plan.saves_at(step))
        and not loop.reports.has("eval", step)
    )
    if step >= end and not lacks_evaluation:
        warn(
            f"{plan.description}: {step} of {end} steps are done already, so nothing is trained, "
            "whatever other flags say; another --output_dir starts a new run"
        )
        return
    with loop.reports, loop.preemption:
        try:
            if lacks_evaluation:
                loop.evaluate()
            if step < end:
                loop.update_until_end(step, trainer.distribute(batches_from(step)))
        except Preempted:
            loop.wait_for_state()
            raise
        loop.wait_for_state()
        if trainer.is_chief and evaluate is None:
            plan.write_best({"step": trainer.step})


@dataclasses.dataclass
class _Loop:
    """What one call of `train` works with."""

    trainer: Trainer
    plan: TrainingPlan
    evaluate_model: Callable[[], dict[str, float]] | None
    states: States
    reports: Reports
    bad_steps: BadSteps
    preemption: "Preemption"

    def update_until_end(self, step: int, batches: BatchIterator) -> None:
        """Makes the updates from `step` to the end of the plan, with reports, evaluations and states."""
        trainer, plan = self.trainer, self.plan
        interval = Interval(compiles=True, earlier=self._read_interval(step))
        while step < plan.num_train_steps:
            count = plan.steps_after(step, trainer.steps_per_call)
            means = trainer.train_steps(batches, count)
            step += count
            interval.add(means, count)
            self.bad_steps.add(step, means)
            is_preempted = trainer.any_worker(self.preemption.requested)
            reports = plan.reports_at(step)
            if not (reports or is_preempted):
                self.reports.advance(step)
                continue
            self.bad_steps.check(trainer.is_chief)
            saves = plan.saves_at(step) or is_preempted
            # The weights may be what made the gradient infinite.
            saves &= step == plan.num_train_steps or not self.bad_steps.in_a_row
            evaluates = saves and not is_preempted and self.evaluate_model is not None
            if reports:
                summary = interval.summarize(trainer)
                self.reports.write("train", step, *summary, is_last=not evaluates)
            self.states.check()
            if saves and trainer.is_chief:
                # A run that is stopped reports nothing that one without a stop does not.
                self.states.start_saving(step, {} if reports else interval.state)
            if is_preempted:
                self.preemption.end()
            if evaluates:
                self.evaluate()
            interval = Interval()

    def _read_interval(self, step: int) -> Mapping[str, np.ndarray]:
        """Returns what the run that is resumed at a step had not yet reported."""
        return {} if self.reports.has("train", step) else self.states.read_interval(step)

    def wait_for_state(self) -> None:
        """Waits until the chief has written its state."""
        if self.trainer.is_chief:
            self.states.wait()
        self.trainer.any_worker(False)

    def evaluate(self) -> None:
        """Evaluates, keeps the weights if they are the best so far, and then reports.

        The report comes last because a reported step is not evaluated again after a restart.
        """
        assert self.evaluate_model is not None
        trainer, plan, step = self.trainer, self.plan, self.trainer.step
        with self.preemption.nothing_to_save():
            metrics = self.evaluate_model()
            for name, value in metrics.items():
                if not math.isfinite(value):
                    raise InputError(
                        f"step {step}: {name} is {value}; restart from an earlier checkpoint with a "
                        "lower learning rate or a longer warm-up"
                    )
            # Untrained weights are never the best.
            if trainer.is_chief and step > 0 and plan.is_best(metrics):
                plan.write_best({"step": step, **metrics})
            self.reports.write("eval", step, metrics)


class Preemption:
    """Records SIGTERM and Ctrl-C, so that the run can save its state before it ends.

    Schedulers send SIGTERM before they preempt a machine. A second Ctrl-C ends the process immediately.
    A worker that is not alone has others that would wait for it.
    """

    def __init__(self, is_alone: bool):
        self._is_alone = is_alone
        self._signal: int | None = None
        self._may_raise = False
        self._before: dict[int, Callable[..., Any] | int | None] = {}

    @property
    def requested(self) -> bool:
        """Whether the run should end."""
        return self._signal is not None

    def __enter__(self) -> "Preemption":
        # Signal handlers can only be set in the main thread.
        if threading.current_thread() is threading.main_thread():
            self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._note)
            # Background jobs of a shell script ignore Ctrl-C.
            if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
                self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exception) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def nothing_to_save(self) -> Iterator[None]:
        """Lets a signal end the block immediately, unless other workers wait for this one."""
        self._may_raise = self._is_alone
        try:
            self._end_if_requested()
            yield
            # Python discards exceptions raised in a destructor.
            self._end_if_requested()
        finally:
            self._may_raise = False

    def end(self) -> NoReturn:
        """Ends the run."""
        if self._signal == signal.SIGINT:
            raise Preempted("stopped by Ctrl-C; the same command resumes", 128 + signal.SIGINT)
        raise Preempted("stopped by SIGTERM; the same command resumes")

    def _note(self, number: int, frame: object) -> None:
        self._signal = self._signal or number
        if number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
            if not self._may_raise:
                # Not print, which is not reentrant.
                os.write(
                    _STDERR, b"\nCtrl-C: saving after this step; Ctrl-C again quits immediately\n"
                )
        self._end_if_requested()

    def _end_if_requested(self) -> None:
        if self.requested and self._may_raise:
            self.end()
