"""Where metrics go while a run is on: progress, `metrics.jsonl`, TensorBoard."""

import contextlib
import types
from collections.abc import Mapping

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import StoppedError
from albert_tf.progress import Progress

_NOTHING: Mapping = types.MappingProxyType({})


def read_reports(output_dir: str) -> list[dict]:
    """Returns what a run reported to `metrics.jsonl`, in order: step, split, metrics."""
    return files.read_json_lines(_path(output_dir))


def _path(output_dir: str) -> str:
    return f"{output_dir}/metrics.jsonl"


class Reports:
    """Where metrics go while a run is on: progress, `metrics.jsonl`, TensorBoard.

    Args:
        output_dir: folder of the run.
        description: what progress calls the run.
        num_train_steps: steps in all.
        step: steps done before; reports of later ones, from a run that was killed, are dropped.
        is_chief: whether to report; what the other workers of a run do is in the reports of one.
    """

    def __init__(
        self, output_dir: str, description: str, num_train_steps: int, step: int, is_chief: bool
    ):
        self._output_dir = output_dir
        self._is_chief = is_chief
        self._progress = Progress(description, "steps", num_train_steps, done=step)
        self._lines = [line for line in read_reports(output_dir) if line["step"] <= step]
        self._exit_stack = contextlib.ExitStack()
        self._has_stepped = False

    def __enter__(self) -> "Reports":
        if not self._is_chief:
            return self
        with files.explain_refusal(self._output_dir):
            self._writers = {
                split: tf.summary.create_file_writer(f"{self._output_dir}/{split}")
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
            # What came first is what the user has to hear.
            if exception_type is None:
                raise

    def has(self, split: str, step: int) -> bool:
        """Returns whether there is a report of a split at a step."""
        return any(line["split"] == split and line["step"] == step for line in self._lines)

    def last(self, name: str) -> float:
        """Returns what the `train` split last reported under a name; 0 where it did not."""
        return next((line[name] for line in reversed(self._lines) if name in line), 0)

    def advance(self, step: int) -> None:
        """Notes that the run has reached a step."""
        if self._is_chief:
            self._progress.update(self._count_to(step))

    def _count_to(self, step: int) -> float:
        """Returns the steps that progress has still to count; the run's first ones are counted here."""
        count = step - self._progress.done
        if count > 0 and not self._has_stepped:
            self._has_stepped = True
            self._progress.warm_up(count)
            return 0
        return count

    def go_back(self, step: int) -> None:
        """Drops the reports of later steps than `step`, to which the run has gone back."""
        self._lines = [line for line in self._lines if line["step"] <= step]
        self.advance(step)

    def write(
        self,
        split: str,
        step: int,
        metrics: Mapping[str, float],
        rates: Mapping[str, float] = _NOTHING,
        details: Mapping[str, float] = _NOTHING,
    ) -> None:
        """Reports on the `train` or the `eval` split.

        Args:
            split: `train` or `eval`.
            step: the number of updates so far.
            metrics: what goes everywhere; the same in every run.
            rates: what is another in each run, and not in `metrics.jsonl`.
            details: what is in TensorBoard alone.
        """
        if not self._is_chief:
            return
        shown = {**metrics, **rates}
        named = {f"{split}_{name}": value for name, value in shown.items()}
        self._progress.report(named, self._count_to(step))
        with files.explain_refusal(self._output_dir), self._writers[split].as_default():
            for name, value in {**shown, **details}.items():
                tf.summary.scalar(name, value, step=step)
        self._lines.append({"step": step, "split": split, **metrics})
        files.write_json_lines(_path(self._output_dir), self._lines)
