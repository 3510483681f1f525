"""From the first step to the last: progress, summaries, evaluation, checkpoints, resuming.

What a run leaves in its folder:

    ckpt-*, checkpoint     the newest checkpoints, with the optimizer's state
    best/                  the weights that did best in evaluation, and their metrics
    metrics.jsonl          a line for each report: step, split, metrics
    train/, eval/          the same as TensorBoard summaries

A run that was killed loses the updates after its newest checkpoint, and `metrics.jsonl` loses their
reports; TensorBoard, which only adds, shows them twice.
"""

import contextlib
import dataclasses
import json
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError, Preempted
from albert_tf.progress import Progress
from albert_tf.training.checkpoints import BestCheckpoint, Checkpoints, variables_by_path
from albert_tf.training.evaluator import MeanAccumulator
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
        keep_checkpoint_max: how many of the newest checkpoints stay.
        best_metric: name of the evaluation's metric that picks the best checkpoint.
        higher_is_better: whether a higher `best_metric` is better.
    """

    description: str
    output_dir: str
    num_train_steps: int
    save_checkpoints_steps: int
    log_steps: int
    keep_checkpoint_max: int
    best_metric: str
    higher_is_better: bool

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
        InputError: a checkpoint cannot be written, or the loss is not finite.
        Preempted: SIGTERM was received; the step that was under way is saved.
    """
    checkpoints = _checkpoints(trainer, plan.output_dir, plan.keep_checkpoint_max)
    reports = Reports(plan, trainer.step)
    # The curve starts where the model does; and a run may be killed before it has evaluated.
    lacks_evaluation = evaluate is not None and not reports.has("eval", trainer.step)
    steps_left = max(0, plan.num_train_steps - trainer.step)
    if not steps_left and not lacks_evaluation:
        print(f"{plan.description}: has {trainer.step} of {plan.num_train_steps} steps already")
        return
    with reports, _Preemption() as preemption:
        if lacks_evaluation:
            with preemption.nothing_to_save():
                _evaluate(trainer, plan, reports, evaluate)
        means = MeanAccumulator()
        for step_means in trainer.train_steps(batches_from(trainer.step).take(steps_left)):
            means.add(step_means)
            step = reports.advance()
            saves = step == plan.num_train_steps or step % plan.save_checkpoints_steps == 0
            if saves or preemption.requested or step % plan.log_steps == 0:
                reports.write("train", step, _checked(means.result(), step))
                means = MeanAccumulator()
            if saves or preemption.requested:
                checkpoints.save(step)
            if preemption.requested:
                preemption.end()
            if saves and evaluate is not None:
                with preemption.nothing_to_save():
                    _evaluate(trainer, plan, reports, evaluate)


def _evaluate(
    trainer: Trainer,
    plan: TrainingPlan,
    reports: "Reports",
    evaluate: Callable[[], dict[str, float]],
) -> None:
    """Evaluates, keeps the weights where they are the best so far, and then reports.

    In this order, because a step that is reported is not evaluated again.
    """
    step = trainer.step
    metrics = _checked(evaluate(), step)
    # What was not trained is never the best.
    if step > 0 and _is_best(plan, step, metrics[plan.best_metric]):
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


class _Preemption:
    """Notes SIGTERM, with which schedulers announce that they take the machine away."""

    def __init__(self):
        self.requested = False
        self._may_raise = False

    def __enter__(self) -> "_Preemption":
        # Python delivers signals to the main thread, and only there can they be asked for.
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *exception) -> None:
        if self._is_main:
            signal.signal(signal.SIGTERM, self._before)

    @contextlib.contextmanager
    def nothing_to_save(self) -> Iterator[None]:
        """Within, SIGTERM ends the run at once."""
        self._may_raise = True
        try:
            yield
        finally:
            self._may_raise = False

    def end(self) -> NoReturn:
        """Ends the run."""
        raise Preempted("stopped by SIGTERM; the same command goes on")

    def _note(self, *arguments) -> None:
        self.requested = True
        if self._may_raise:
            self.end()


class Reports:
    """Where metrics go while a run is on: progress, `metrics.jsonl`, TensorBoard.

    Args:
        plan: of the run.
        step: updates done before; reports of later steps, from a run that was killed, are dropped.
    """

    def __init__(self, plan: TrainingPlan, step: int):
        self._path = f"{plan.output_dir}/metrics.jsonl"
        self._plan = plan
        self._first_step = step
        self._lines = [line for line in _read_reports(self._path) if line["step"] <= step]
        self._exit_stack = contextlib.ExitStack()

    def __enter__(self) -> "Reports":
        plan = self._plan
        self._writers = {
            split: tf.summary.create_file_writer(f"{plan.output_dir}/{split}")
            for split in ("train", "eval")
        }
        self._progress = self._exit_stack.enter_context(
            Progress(plan.description, "steps", plan.num_train_steps, done=self._first_step)
        )
        return self

    def __exit__(self, *exception) -> None:
        for writer in self._writers.values():
            writer.close()
        self._exit_stack.close()

    def has(self, split: str, step: int) -> bool:
        """Returns whether there is a report of a split at a step."""
        return any(line["split"] == split and line["step"] == step for line in self._lines)

    def advance(self) -> int:
        """Counts one update and returns how many there are."""
        self._progress.update()
        return self._progress.done

    def write(self, split: str, step: int, metrics: Mapping[str, float]) -> None:
        """Reports metrics of the `train` or the `eval` split."""
        self._progress.report({f"{split}_{name}": value for name, value in metrics.items()})
        with self._writers[split].as_default():
            for name, value in metrics.items():
                tf.summary.scalar(name, value, step=step)
        self._lines.append({"step": step, "split": split, **metrics})
        files.write_text(self._path, "".join(json.dumps(line) + "\n" for line in self._lines))


def _read_reports(path: str) -> Iterator[dict]:
    if tf.io.gfile.exists(path):
        for _, line in files.read_lines(path):
            yield json.loads(line)
