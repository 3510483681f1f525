"""From the first step to the last: progress, summaries, evaluation, checkpoints, resuming.

What a run leaves in its folder:

    ckpt-*, checkpoint     the newest checkpoints, with the optimizer's state
    best/                  the weights that did best in evaluation, and their metrics
    metrics.jsonl          a line for each report: step, split, metrics
    train/, eval/          the same as TensorBoard summaries

A run that was killed loses the updates after its newest checkpoint, and `metrics.jsonl` loses their
reports; TensorBoard, which only adds, shows them twice.
"""

import dataclasses
import math
from collections.abc import Callable

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError, StoppedError
from albert_tf.training.checkpoints import BestCheckpoint, Checkpoints, variables_by_path
from albert_tf.training.evaluator import MeanAccumulator
from albert_tf.training.interruptions import BadSteps, Preemption
from albert_tf.training.reports import Reports
from albert_tf.training.trainer import Trainer

_BEST_DIR = "best"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How long to train, and what to do on the way.

    Attributes:
        description: what progress calls the run.
        output_dir: folder of everything the run leaves.
        num_train_steps: updates in all, those before a restart included.
        save_checkpoints_steps: updates between two evaluations and checkpoints.
        log_steps: updates between two reports.
        steps_per_loop: updates at most that the devices make before the host hears of them.
        keep_checkpoint_max: how many of the newest checkpoints stay.
        max_bad_steps: steps in a row that may be skipped because a gradient is not finite.
        best_metric: name of the evaluation's metric that picks the best checkpoint.
        higher_is_better: whether a higher `best_metric` is better.
    """

    description: str
    output_dir: str
    num_train_steps: int
    save_checkpoints_steps: int
    log_steps: int
    steps_per_loop: int
    keep_checkpoint_max: int
    max_bad_steps: int
    best_metric: str
    higher_is_better: bool

    def steps_after(self, step: int) -> int:
        """Returns how many updates follow a step until the host has something to do."""
        intervals = (self.log_steps, self.save_checkpoints_steps)
        return min(
            self.steps_per_loop,
            self.num_train_steps - step,
            *(interval - step % interval for interval in intervals),
        )

    @property
    def best(self) -> BestCheckpoint:
        """The best checkpoint of the run."""
        return BestCheckpoint(f"{self.output_dir}/{_BEST_DIR}")


def best_checkpoint(output_dir: str) -> str:
    """Returns what to load of a run: the best or, where nothing was evaluated, the newest."""
    return BestCheckpoint(f"{output_dir}/{_BEST_DIR}").prefix or output_dir


def resume(trainer: Trainer, output_dir: str) -> bool:
    """Restores the newest checkpoint of a run's folder.

    Returns:
        whether there is one.

    Raises:
        InputError: it is damaged, or of another model or optimizer.
    """
    checkpoints = _checkpoints(trainer, output_dir)
    if not checkpoints.restore_latest():
        return False
    if trainer.is_chief:
        print(f"goes on at step {trainer.step} of {output_dir}")
    return True


def _checkpoints(trainer: Trainer, output_dir: str, max_to_keep: int = 1) -> Checkpoints:
    state = variables_by_path([*trainer.model.weights, *trainer.optimizer.variables])
    return Checkpoints(output_dir, state, max_to_keep)


def train(
    trainer: Trainer,
    plan: TrainingPlan,
    batches_from: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    """Trains from the trainer's step to the end of the plan.

    Args:
        trainer: makes the updates; at its first step, or as `resume` left it.
        plan: how long, and what to do on the way.
        batches_from: returns the batches from a step on; the same ones in every run.
        evaluate: returns metrics of held-out data; None where there is none.

    Raises:
        InputError: a checkpoint cannot be written, too many gradients in a row are not finite, or an
            evaluation is not.
        StoppedError: another worker is gone.
        Preempted: SIGTERM was received; the step that was under way is saved.
    """
    try:
        _train(trainer, plan, batches_from, evaluate)
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        if trainer.is_alone:
            raise
        raise StoppedError(
            f"another worker is gone ({files.reason(error)}); start all of them again with the same "
            "commands, and they go on from the newest checkpoint"
        ) from error


def _train(
    trainer: Trainer,
    plan: TrainingPlan,
    batches_from: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    checkpoints = _checkpoints(trainer, plan.output_dir, plan.keep_checkpoint_max)
    step = trainer.step
    reports = Reports(
        plan.output_dir, plan.description, plan.num_train_steps, step, trainer.is_chief
    )
    # The curve starts where the model does; and a run may be killed before it has evaluated.
    lacks_evaluation = evaluate is not None and not reports.has("eval", step)
    if step >= plan.num_train_steps and not lacks_evaluation:
        print(f"{plan.description}: has {step} of {plan.num_train_steps} steps already")
        return
    with reports, Preemption(trainer.is_alone) as preemption:
        if lacks_evaluation:
            with preemption.nothing_to_save():
                _evaluate(trainer, plan, reports, evaluate)
        batches = trainer.distribute(batches_from(step))
        means, bad_steps = MeanAccumulator(), BadSteps(plan.max_bad_steps)
        while step < plan.num_train_steps:
            count = plan.steps_after(step)
            step_means = trainer.train_steps(batches, count)
            step += count
            means.add(step_means)
            reports.advance(count)
            bad_steps.add(step, step_means["skipped_updates"])
            is_last = step == plan.num_train_steps
            is_preempted = trainer.any_worker(preemption.requested)
            saves = is_last or is_preempted or step % plan.save_checkpoints_steps == 0
            if saves or step % plan.log_steps == 0:
                bad_steps.check()
                reports.write("train", step, means.result())
                means = MeanAccumulator()
            # What made a gradient infinite may be in the weights.
            if saves and (is_last or not bad_steps.in_a_row):
                if trainer.is_chief:
                    checkpoints.save(step)
            else:
                continue
            if is_preempted:
                preemption.end()
            if evaluate is not None:
                with preemption.nothing_to_save():
                    _evaluate(trainer, plan, reports, evaluate)
    # What the chief has written is there for all.
    trainer.any_worker(False)


def _evaluate(
    trainer: Trainer,
    plan: TrainingPlan,
    reports: Reports,
    evaluate: Callable[[], dict[str, float]],
) -> None:
    """Evaluates, keeps the weights where they are the best so far, and then reports.

    In this order, because a step that is reported is not evaluated again.
    """
    step = trainer.step
    metrics = _checked(evaluate(), step)
    # What was not trained is never the best.
    if trainer.is_chief and step > 0 and _is_best(plan, step, metrics[plan.best_metric]):
        plan.best.replace(trainer.model, step, metrics)
    reports.write("eval", step, metrics)


def _is_best(plan: TrainingPlan, step: int, value: float) -> bool:
    best = plan.best.metrics
    if best is None or best["step"] == step:
        return True
    if plan.higher_is_better:
        return value > best[plan.best_metric]
    return value < best[plan.best_metric]


def _checked(metrics: dict[str, float], step: int) -> dict[str, float]:
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise InputError(
                f"step {step}: {name} is {value}; start again from a checkpoint before, "
                "with a lower --learning_rate or a longer warm-up"
            )
    return metrics
