"""What the steps between two reports add up to."""

import time
from typing import NamedTuple

from albert_tf.training.evaluator import MeanAccumulator, Means
from albert_tf.training.trainer import Trainer

_COUNT = "_per_update"


class Summary(NamedTuple):
    """What there is to say of an interval.

    Attributes:
        metrics: means, the same in every run.
        rates: what was done a second, sequences and tokens among it.
        trust_ratios: of each variable that has one, the mean, by its path.
        counts: what adds up from one interval to the next, the same in every run: `skipped_updates`, and
            `tokens_seen` where the loss counts tokens.
    """

    metrics: dict[str, float]
    rates: dict[str, float]
    trust_ratios: dict[str, float]
    counts: dict[str, int]


class Interval:
    """Steps between two reports; the clock starts when it is made.

    Args:
        compiles: whether the first call of `add` waited for graphs to be compiled. Its steps are then
            left out of the rates, unless there are no others.
    """

    def __init__(self, compiles: bool = False):
        self._means = MeanAccumulator()
        self._steps = 0
        self._compiles = compiles
        # From which number of steps on there is a rate, and since when.
        self._timed_from: list[tuple[int, float]] = [(0, time.monotonic())]

    def add(self, means: Means, count: int) -> None:
        """Adds `count` steps, as the trainer returns them."""
        self._means.add_steps(means)
        self._steps += count
        if self._compiles:
            self._timed_from.append((self._steps, time.monotonic()))
            self._compiles = False

    def summarize(self, trainer: Trainer) -> Summary:
        """Waits for the steps and returns what they add up to."""
        means = self._means.result()
        steps_before, start = next(
            (steps, start) for steps, start in reversed(self._timed_from) if steps < self._steps
        )
        seconds = (time.monotonic() - start) / (1 - steps_before / self._steps)
        trust_ratios = means.pop("trust_ratios", [])
        skipped = round(means.pop("skipped_updates") * self._steps)
        # A step that is skipped teaches nothing, so what is in its batch does not count.
        seen = {
            name.removesuffix(_COUNT): means.pop(name) * (self._steps - skipped)
            for name in list(means)
            if name.endswith(_COUNT)
        }
        counts = {"skipped_updates": skipped}
        if "tokens" in seen:
            counts["tokens_seen"] = round(seen["tokens"])
        return Summary(
            metrics=trainer.derive(means),
            rates={f"{name}_per_second": count / seconds for name, count in seen.items()},
            trust_ratios=dict(zip(trainer.trust_ratio_paths, trust_ratios, strict=True)),
            counts=counts,
        )
