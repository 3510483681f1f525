"""Metrics of a run: averaged over intervals, and reported to the progress, a file and TensorBoard.

Steps that were skipped because the loss or gradient was not finite have reports of their own.
"""

import collections
import contextlib
import time
import types
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError, StoppedError, warn
from albert_tf.progress import Progress
from albert_tf.training.evaluator import MeanAccumulator, StepMeans
from albert_tf.training.trainer import Trainer

# Receives a number of updates and the metrics reported after them, such as `train_loss`.
Callback = Callable[[int, Mapping[str, float]], None]

_NOTHING: Mapping = types.MappingProxyType({})
_COUNT = "_per_update"
# Name in the state of an interval, which no mean has.
_STEPS = "steps"
# Not on the screen, where few values are read.
_NOT_SHOWN = {
    *("learning_rate", "gradient_norm", "tokens_seen", "perplexity"),
    *("sequences_per_second", "predictions_per_second"),
}
# All that is shown of the training if values of the evaluation follow.
_SHORT = {"loss", "skipped_updates", "tokens_per_second"}


class Interval:
    """Steps between two reports; the time starts when the interval is created.

    If the first `add` includes compilation, its steps don't count for the rates, unless there are no
    others. `earlier` is the `state` of an interval in which a run was stopped.
    """

    def __init__(self, compiles: bool = False, earlier: Mapping[str, np.ndarray] = _NOTHING):
        totals = dict(earlier)
        self._steps = int(totals.pop(_STEPS, 0))
        self._means = MeanAccumulator(totals)
        self._compiles = compiles
        # Pairs (number of steps, time) from which the rates can be measured.
        self._timed_from: list[tuple[int, float]] = [(self._steps, time.monotonic())]

    @property
    def state(self) -> dict[str, np.ndarray]:
        """What a run that is resumed within the interval needs, by name."""
        return {**self._means.totals(), _STEPS: np.array(self._steps)}

    def add(self, means: StepMeans, count: int) -> None:
        """Adds the means of `count` steps, as returned by the trainer."""
        self._means.add(means)
        self._steps += count
        if self._compiles:
            self._timed_from.append((self._steps, time.monotonic()))
            self._compiles = False

    def summarize(self, trainer: Trainer) -> tuple[Mapping, Mapping, Mapping]:
        """Waits for the steps and returns metrics, rates and counts, as `Reports.write` takes them."""
        means = self._means.result()
        steps_before, start = next(
            (steps, start) for steps, start in reversed(self._timed_from) if steps < self._steps
        )
        seconds = (time.monotonic() - start) / (1 - steps_before / self._steps)
        skipped = round(means.pop("skipped_updates") * self._steps)
        # The batches of skipped steps do not count.
        seen = {
            name.removesuffix(_COUNT): means.pop(name) * (self._steps - skipped)
            for name in list(means)
            if name.endswith(_COUNT)
        }
        counts = {"skipped_updates": skipped}
        if "tokens" in seen:
            counts["tokens_seen"] = round(seen["tokens"])
        rates = {f"{name}_per_second": count / seconds for name, count in seen.items()}
        derived, empty = trainer.derive(means), self._means.empty
        # No row of the interval had a label, or all of its steps were skipped.
        return {name: x for name, x in derived.items() if name not in empty}, rates, counts


class Reports:
    """Reports metrics of the chief to the progress, `metrics.jsonl` and TensorBoard.

    `progress` is at the first step of the run. Reports of later ones, which a killed run wrote, are
    discarded, and all of a run without a checkpoint, which may have had another model.
    """

    def __init__(
        self,
        output_dir: str,
        progress: Progress,
        is_chief: bool,
        callback: Callback | None = None,
    ):
        self._output_dir = output_dir
        self._is_chief = is_chief
        self._callback = callback
        self._progress = progress
        lines = read_reports(output_dir) if progress.done else []
        self._lines = [line for line in lines if line["step"] <= progress.done]
        self._exit_stack = contextlib.ExitStack()
        self._has_stepped = False
        self._held: dict[str, float] = {}  # values for the line of the next report

    def __enter__(self) -> "Reports":
        if not self._is_chief:
            return self
        with files.explain_refusal(self._output_dir):
            self._writers = {
                split: tf.summary.create_file_writer(
                    files.for_tensorflow(f"{self._output_dir}/{split}")
                )
                for split in ("train", "eval")
            }
        for writer in self._writers.values():
            self._exit_stack.callback(writer.close)
        self._exit_stack.enter_context(self._progress)
        return self

    def __exit__(self, exception_type: type | None, *exception) -> None:
        try:
            with files.explain_refusal(self._output_dir):
                self._exit_stack.close()
        except StoppedError:
            # The first error is the one to report.
            if exception_type is None:
                raise

    def has(self, split: str, step: int) -> bool:
        """Returns whether a split was reported at a step."""
        return any(line["split"] == split and line["step"] == step for line in self._lines)

    def advance(self, step: int) -> None:
        """Updates the progress to a step."""
        if self._is_chief:
            self._progress.update(self._count_to(step))

    def _count_to(self, step: int) -> float:
        """Returns the number of steps since the last update; the first steps are added without a rate."""
        count = step - self._progress.done
        if count > 0 and not self._has_stepped:
            self._has_stepped = True
            self._progress.warm_up(count)
            return 0
        return count

    def write(
        self,
        split: str,
        step: int,
        metrics: Mapping[str, float],
        rates: Mapping[str, float] = _NOTHING,
        counts: Mapping[str, int] = _NOTHING,
        is_last: bool = True,
    ) -> None:
        """Reports on the `train` or the `eval` split after a number of updates.

        `metrics` are reproducible values, `rates` numbers per second, which are not for `metrics.jsonl`,
        and `counts` numbers since the last report, reported as totals of the run. `is_last` says that no
        other report of this step follows, which would share a line of a log.
        """
        if not self._is_chief:
            return
        before = collections.ChainMap(*reversed(self._lines))  # the last value of each name
        metrics = {**metrics, **{name: before.get(name, 0) + n for name, n in counts.items()}}
        values = {**metrics, **rates}
        named = {f"{split}_{name}": value for name, value in values.items()}
        self._held |= {
            f"{split}_{name}": value
            for name, value in values.items()
            if (name in _SHORT or (is_last and name not in _NOT_SHOWN))
            and (name != "skipped_updates" or value)
        }
        if is_last:
            self._progress.report(self._held, self._count_to(step))
            self._held = {}
        with files.explain_refusal(self._output_dir), self._writers[split].as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
        self._lines.append({"step": step, "split": split, **metrics})
        files.write_json_lines(_metrics_path(self._output_dir), self._lines)
        if self._callback is not None:
            self._callback(step, named)


class BadSteps:
    """Counts and reports skipped steps. Reads from the device only in `check`.

    More than `most` consecutive steps are an error; `in_a_row` is the number at the end.
    """

    def __init__(self, most: int):
        self._most = most
        self._unread: list[tuple[int, StepMeans]] = []
        self.in_a_row = 0

    def add(self, step: int, means: StepMeans) -> None:
        """Adds the steps up to `step`."""
        self._unread.append((step, means))

    def check(self, is_chief: bool) -> None:
        """Warns of each skipped step."""
        for step, is_skipped in self._read():
            self.in_a_row = self.in_a_row + 1 if is_skipped else 0
            if is_skipped and is_chief:
                warn(f"step {step}: skipped, its loss or gradient is not finite")
            if self.in_a_row > self._most:
                raise InputError(
                    f"step {step}: the loss or gradient of {self.in_a_row} consecutive steps is not "
                    "finite; the newest checkpoint is older; restart with a lower learning rate or a "
                    "longer warm-up"
                )
        self._unread = []

    def _read(self) -> Iterator[tuple[int, bool]]:
        """Yields the number of each step and whether it was skipped."""
        for last, means in self._unread:
            skipped, _ = means["skipped_updates"]
            flags = skipped.numpy() > 0
            yield from enumerate(flags, last - len(flags) + 1)


def read_reports(output_dir: str) -> list[dict]:
    """Returns the lines of a run's `metrics.jsonl`, in order: step, split, metrics."""
    return files.read_json_lines(_metrics_path(output_dir))


def remove_reports(output_dir: str) -> None:
    """Removes the metrics of a run, but for TensorBoard's, which can only append."""
    files.remove(_metrics_path(output_dir))


def _metrics_path(output_dir: str) -> str:
    return f"{output_dir}/metrics.jsonl"


def draw_learning_curve(output_dir: str, *metrics: str) -> str | None:
    """Plots losses, and metrics by suffixes, to `learning_curve.png`; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    reports = read_reports(output_dir)
    panel_names = ("loss", *metrics)
    figure = Figure(figsize=(4 * len(panel_names), 3.5), layout="constrained")
    panels = figure.subplots(1, len(panel_names), squeeze=False)[0]
    for split in ("train", "eval"):
        split_reports = [report for report in reports if report["split"] == split]
        for axes, suffix in zip(panels, panel_names, strict=True):
            for name in sorted({name for report in split_reports for name in report}):
                if name == suffix or name.endswith(f"_{suffix}"):
                    points = [
                        (report["step"], report[name]) for report in split_reports if name in report
                    ]
                    axes.plot(*zip(*points, strict=True), ".-", label=f"{split} {name}")
    for axes in panels:
        axes.set_xlabel("step")
        if axes.lines:
            axes.legend()
    path = f"{output_dir}/learning_curve.png"
    files.write_picture(path, figure)
    return path
