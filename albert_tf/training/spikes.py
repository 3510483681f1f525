"""Loss spikes: found, explained, and gone back from.

A spike is a step whose loss is above the median of the last ones by a factor. By then an update before
it may have done the harm, or the step's batch is of another kind than all others. So the way out is to
go back to a checkpoint and to go on with other batches than those that led there.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.training.evaluator import Means

# Losses whose median counts, and how many there have to be.
_WINDOW = 100
_LEAST = 11


class LossHistory:
    """What the decisions about spikes depend on; saved with a run, which so goes on to the same ones.

    Attributes:
        recent_losses: the last losses, float32; the oldest first, NaN where there are none yet.
        batches_left_out: how many batches were left out so far.
        furthest_spike: the step of the furthest spike that the run went back from.
        returned_to: the step that it went back to the last time.
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
        """All of them."""
        return [self.recent_losses, self.batches_left_out, self.furthest_spike, self.returned_to]

    @property
    def ahead(self) -> int:
        """How many batches were left out so far: after step n comes batch n + ahead, from 0."""
        return int(self.batches_left_out.numpy())

    def plan_return(self, spike_step: int) -> "Return":
        """Returns what a spike asks for."""
        furthest = int(self.furthest_spike.numpy())
        return Return(
            batches_used=spike_step + self.ahead,
            furthest_spike=max(spike_step, furthest),
            before=spike_step if spike_step > furthest else int(self.returned_to.numpy()),
        )

    def set_return(self, planned: "Return", step: int) -> None:
        """Notes that the run went back to a step, whose checkpoint it has read."""
        self.batches_left_out.assign(planned.batches_used - step)
        self.furthest_spike.assign(planned.furthest_spike)
        self.returned_to.assign(step)


class Return(NamedTuple):
    """How a run goes back from a spike.

    Attributes:
        batches_used: number of the first batch that was not used yet.
        furthest_spike: the step of the furthest spike so far.
        before: the run goes back to the newest checkpoint of a step before this one.
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
        median: of the losses before it.
        gradient_norm: global norm of its gradients.
        trust_ratios: of its update, by the path of the variable; none without LAMB.
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
    """Finds spikes; reads nothing from the device until it is asked.

    Args:
        threshold: factor by which the loss of a spike exceeds the median of the losses before it; 0
            finds none.
        history: holds the losses before.
        derive: means of a step -> its metrics, `loss` among them.
        trust_ratio_paths: paths of the variables whose trust ratios the means hold.
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
        """Notes the means of the steps up to `step`, as the trainer returns them."""
        if self._threshold:
            self._unread.append((step, means))

    def forget(self) -> None:
        """Forgets the steps that were not looked at: the run goes back to before them."""
        self._unread = []
        self._is_in_spike = False

    def find(self) -> Iterator[Spike]:
        """Yields the first step of each spike; at the end the history holds all losses so far."""
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
        """Returns the loss of each step, NaN where the step was skipped."""
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
