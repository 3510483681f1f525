"""Loss spikes: detection, explanation, and rollback.

A spike is a step whose loss exceeds the median of the losses before it by a factor. Its cause may be an
earlier update, or a batch of another kind than all others. So a run can roll back to a checkpoint and
continue with other batches than those that led to the spike.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.training.evaluator import Means

# Number of losses whose median counts, and the least number for a median.
_WINDOW = 100
_LEAST = 11


class LossHistory:
    """The state of spike detection, which is saved with a run so that a resumed one decides the same.

    The names of the variables are part of the checkpoint format.

    Attributes:
        recent_losses: last losses, float32; the oldest first, NaN if there are fewer.
        batches_left_out: number of batches left out so far.
        furthest_spike: last step from which the run rolled back.
        returned_to: step to which it rolled back the last time.
    """

    def __init__(self):
        def make(name: str, shape: tuple[int, ...], dtype: str, value: float) -> keras.Variable:
            fill = keras.initializers.Constant(value)
            return keras.Variable(fill, shape, dtype, trainable=False, name=name)

        self.recent_losses = make("recent_losses", (_WINDOW,), "float32", float("nan"))
        self.batches_left_out = make("batches_left_out", (), "int64", 0)
        self.furthest_spike = make("furthest_spike", (), "int64", 0)
        self.returned_to = make("returned_to", (), "int64", 0)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables."""
        return [self.recent_losses, self.batches_left_out, self.furthest_spike, self.returned_to]

    @property
    def ahead(self) -> int:
        """Number of batches left out so far: after step n comes batch n + ahead, from 0."""
        return int(self.batches_left_out.numpy())

    def plan_rollback(self, spike_step: int) -> "Rollback":
        """Returns the rollback from a spike."""
        furthest = int(self.furthest_spike.numpy())
        return Rollback(
            batches_used=spike_step + self.ahead,
            furthest_spike=max(spike_step, furthest),
            before=spike_step if spike_step > furthest else int(self.returned_to.numpy()),
        )

    def record_rollback(self, rollback: "Rollback", step: int) -> None:
        """Records a rollback to `step`, whose checkpoint has been restored."""
        self.batches_left_out.assign(rollback.batches_used - step)
        self.furthest_spike.assign(rollback.furthest_spike)
        self.returned_to.assign(step)


class Rollback(NamedTuple):
    """How to roll back from a spike.

    Attributes:
        batches_used: number of the first unused batch.
        furthest_spike: last step with a spike so far.
        before: the run rolls back to the newest checkpoint before this step.
    """

    batches_used: int
    furthest_spike: int
    before: int


@dataclasses.dataclass(frozen=True)
class Spike:
    """A step whose loss is far above those before it.

    Attributes:
        step: the step.
        loss: its loss.
        median: median of the losses before it.
        gradient_norm: global norm of its gradients.
        trust_ratios: trust ratio of each variable, by path; empty without LAMB.
    """

    step: int
    loss: float
    median: float
    gradient_norm: float
    trust_ratios: Mapping[str, float]

    def __str__(self):
        text = (
            f"step {self.step}: the loss is {self.loss:.4g}, {self.loss / self.median:.1f} times its "
            f"running median {self.median:.4g}; gradient norm {self.gradient_norm:.4g}"
        )
        if self.trust_ratios:
            least, *_, most = sorted((ratio, path) for path, ratio in self.trust_ratios.items())
            text += "; trust ratios from {:.3g} of {} to {:.3g} of {}".format(*least, *most)
        return text


class SpikeWatch:
    """Finds spikes. Reads from the device only in `find`.

    Args:
        threshold: factor by which the loss of a spike exceeds the median of the losses before it; 0
            finds none.
        history: losses of the earlier steps.
        derive: computes the metrics, including `loss`, from the means of a step.
        trust_ratio_paths: paths of the variables with a trust ratio.
    """

    def __init__(
        self,
        threshold: float,
        history: LossHistory,
        derive: Callable[[Mapping[str, float]], Mapping[str, float]],
        trust_ratio_paths: Sequence[str],
    ):
        self._threshold = threshold
        self._history = history
        self._derive = derive
        self._paths = trust_ratio_paths
        self._unread: list[tuple[int, Means]] = []
        self._is_in_spike = False

    def add(self, step: int, means: Means) -> None:
        """Adds the means of the steps up to `step`, as returned by the trainer."""
        if self._threshold:
            self._unread.append((step, means))

    def forget(self) -> None:
        """Discards the steps added since the last `find`, for a rollback to before them."""
        self._unread = []
        self._is_in_spike = False

    def find(self) -> Iterator[Spike]:
        """Yields the first step of each spike, and then adds the losses to the history."""
        recent = self._history.recent_losses.numpy()
        for last, means in self._unread:
            losses = self._losses(means)
            for row, loss in enumerate(losses):
                if not np.isfinite(loss):
                    continue
                before = recent[np.isfinite(recent)]
                median = float(np.median(before)) if len(before) >= _LEAST else np.inf
                is_spike = loss > self._threshold * median
                if is_spike and not self._is_in_spike:
                    yield self._describe(last - len(losses) + 1 + row, row, loss, median, means)
                self._is_in_spike = is_spike
                recent = np.append(recent[1:], np.float32(loss))
        if self._unread:
            self._history.recent_losses.assign(recent)
        self._unread = []

    def _losses(self, means: Means) -> list[float]:
        """Returns the loss of each step, NaN for skipped ones."""
        parts = {
            name: (total.numpy(), weight.numpy())
            for name, (total, weight) in means.items()
            if name.endswith("loss")
        }
        count = len(next(iter(parts.values()))[0])
        losses = []
        for row in range(count):
            of_step = {name: (total[row], weight[row]) for name, (total, weight) in parts.items()}
            if any(weight == 0 for _, weight in of_step.values()):
                losses.append(float("nan"))
                continue
            metrics = {name: float(total / weight) for name, (total, weight) in of_step.items()}
            losses.append(self._derive(metrics)["loss"])
        return losses

    def _describe(self, step: int, row: int, loss: float, median: float, means: Means) -> Spike:
        def mean(name: str) -> np.ndarray:
            total, weight = means[name]
            return total[row].numpy() / weight[row].numpy()

        ratios = mean("trust_ratios").tolist() if self._paths else []
        return Spike(
            step=step,
            loss=loss,
            median=median,
            gradient_norm=float(mean("gradient_norm")),
            trust_ratios=dict(zip(self._paths, ratios, strict=True)),
        )
