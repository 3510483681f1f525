"""What the steps between two reports add up to."""

import time
from typing import NamedTuple

from albert_tf.training.evaluator import MeanAccumulator, Means
from albert_tf.training.trainer import Trainer

_COUNT = "_per_update"


class Summary(NamedTuple):
    """What there is to say of an interval.

    Attributes:
        metrics: the same in every run.
        rates: what was done a second, sequences and tokens among it.
        trust_ratios: of each variable that has one, the mean, by its path.
        tokens: how many tokens the updates saw; 0 where nobody counts them.
    """

    metrics: dict[str, float]
    rates: dict[str, float]
    trust_ratios: dict[str, float]
    tokens: int


class Interval:
    """Steps between two reports; the clock starts when it is made."""

    def __init__(self):
        self._means = MeanAccumulator()
        self._steps = 0
        self._start = time.monotonic()

    def add(self, means: Means, count: int) -> None:
        """Adds `count` steps, as the trainer returns them."""
        self._means.add_steps(means)
        self._steps += count

    def summarize(self, trainer: Trainer) -> Summary:
        """Waits for the steps and returns what they add up to."""
        means = self._means.result()
        seconds = time.monotonic() - self._start
        trust_ratios = means.pop("trust_ratios", [])
        # A step that is skipped teaches nothing, so what is in its batch does not count.
        updates = self._steps * (1.0 - means["skipped_updates"])
        counts = {
            name.removesuffix(_COUNT): means.pop(name) * updates
            for name in list(means)
            if name.endswith(_COUNT)
        }
        return Summary(
            metrics=trainer.derive(means),
            rates={f"{name}_per_second": count / seconds for name, count in counts.items()},
            trust_ratios=dict(zip(trainer.trust_ratio_paths, trust_ratios, strict=True)),
            tokens=round(counts.get("tokens", 0)),
        )
