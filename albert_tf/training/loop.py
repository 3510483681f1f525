"""From the first step to the last: progress, summaries, evaluation, checkpoints, resuming.

What a run leaves in its folder:

    ckpt-*, checkpoint     the newest checkpoints, with the optimizer's state
    best/                  the weights that did best in evaluation, and metrics.json
    metrics.jsonl          a line for each report: step, split, metrics
    train/, eval/          the same as TensorBoard summaries
"""

import contextlib
import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.progress import Progress
from albert_tf.training.checkpoints import (
    Checkpoints,
    read_best_metrics,
    variables_by_path,
    write_best_metrics,
)
from albert_tf.training.trainer import MeanAccumulator, Trainer


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
    def best_dir(self) -> str:
        """Folder of the best checkpoint."""
        return f"{self.output_dir}/best"

    @property
    def best_checkpoint(self) -> str:
        """What to load after training: the best or, where nothing was evaluated, the newest."""
        return self.best_dir if read_best_metrics(self.best_dir) else self.output_dir


def train(
    trainer: Trainer,
    plan: TrainingPlan,
    batches_from: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[], dict[str, float]] | None,
) -> None:
    """Trains to the end of the plan, from the newest checkpoint of its folder if there is one.

    Args:
        trainer: makes the updates.
        plan: how long, and what to do on the way.
        batches_from: returns the batches from a step on; the same ones in every run.
        evaluate: returns metrics of held-out data; None where there is none.

    Raises:
        InputError: a checkpoint cannot be read or written, or the loss is not finite.
    """
    state = variables_by_path([*trainer.model.weights, *trainer.optimizer.variables])
    checkpoints = Checkpoints(plan.output_dir, state, plan.keep_checkpoint_max)
    if checkpoints.restore_latest():
        print(f"{plan.description}: goes on from {checkpoints.latest}")
    if trainer.step >= plan.num_train_steps:
        return
    with Reports(plan, trainer.step) as reports:
        if evaluate is not None and trainer.step == 0:
            # The curve starts where the model does.
            reports.write("eval", 0, evaluate())
        means = MeanAccumulator()
        for step_means in trainer.train_steps(batches_from(trainer.step)):
            means.add(step_means)
            step = reports.advance()
            is_last = step == plan.num_train_steps
            saves = is_last or step % plan.save_checkpoints_steps == 0
            if saves or step % plan.log_steps == 0:
                reports.write("train", step, _checked(means.result(), step))
                means = MeanAccumulator()
            if saves:
                if evaluate is not None:
                    metrics = evaluate()
                    reports.write("eval", step, metrics)
                    _keep_best(trainer, plan, step, metrics)
                # After the evaluation: a run that is killed in between repeats it.
                checkpoints.save(step)
            if is_last:
                return


def _checked(metrics: dict[str, float], step: int) -> dict[str, float]:
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise InputError(
                f"step {step}: {name} is {value}; the newest checkpoint is from before; "
                "start again with a lower --learning_rate or a longer warm-up"
            )
    return metrics


def _keep_best(
    trainer: Trainer, plan: TrainingPlan, step: int, metrics: Mapping[str, float]
) -> None:
    """Saves the weights where the evaluation is better than all before."""
    best = read_best_metrics(plan.best_dir)
    if best is not None and best["step"] < step:
        gain = metrics[plan.best_metric] - best[plan.best_metric]
        if gain == 0 or (gain > 0) != plan.higher_is_better:
            return
    weights = variables_by_path(trainer.model.weights)
    Checkpoints(plan.best_dir, weights, max_to_keep=1).save(step)
    write_best_metrics(plan.best_dir, step, metrics)


class Reports:
    """Where metrics go while a run is on: progress, `metrics.jsonl`, TensorBoard.

    Args:
        plan: of the run.
        step: updates done before; reports of later steps, from a run that was killed, are dropped.
    """

    def __init__(self, plan: TrainingPlan, step: int):
        self._path = f"{plan.output_dir}/metrics.jsonl"
        self._plan = plan
        self._progress = Progress(plan.description, "steps", plan.num_train_steps, done=step)
        self._writers = {
            split: tf.summary.create_file_writer(f"{plan.output_dir}/{split}")
            for split in ("train", "eval")
        }
        self._lines = [line for line in _read_reports(self._path) if line["step"] <= step]
        self._exit_stack = contextlib.ExitStack()

    def __enter__(self) -> "Reports":
        self._exit_stack.enter_context(self._progress)
        return self

    def __exit__(self, *exception) -> None:
        for writer in self._writers.values():
            writer.close()
        self._exit_stack.close()

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
