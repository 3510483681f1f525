"""Warns of a pre-training that does not learn, which a falling loss can hide.

A masked LM first learns how frequent each piece is. From there on the loss falls only if the model uses
the context. Where the learning rate is too high, or too few sequences are seen, it never does.
"""

import sys
from collections.abc import Iterable, Mapping

import numpy as np

# Entropies of fewer predictions are too low, because rare pieces are missing.
_PREDICTIONS = 100_000
_MAX_BATCHES = 200
# The lead over the frequencies, in nats, from which on a model has learned something of the context.
_LEAD = 0.1


class LearningCheck:
    """Checks once, long after the warm-up, whether the loss is below the entropy of the pieces.

    Args:
        batches: the first batches of the training, with `masked_lm_ids` (B, M) and `masked_lm_weights`.
        warmup_steps: number of updates of the warm-up.
    """

    def __init__(self, batches: Iterable[Mapping[str, np.ndarray]], warmup_steps: int):
        self._entropy = unigram_entropy(batches)
        self._step = 2 * warmup_steps + 1000
        self._checked = False

    def __call__(self, step: int, metrics: Mapping[str, float]) -> None:
        """Prints a warning at the first report after the step, if the loss is still that high."""
        loss = metrics.get("train_masked_lm_loss")
        if loss is None or step < self._step or self._checked:
            return
        self._checked = True
        if loss > self._entropy - _LEAD:
            print(
                f"warning: after {step} updates the masked-LM loss is {loss:.2f}. Guessing from how "
                f"frequent each piece is has {self._entropy:.2f}, so the model has learned nothing of "
                "the context. A third of the --learning_rate often helps; then a longer --warmup_steps, "
                "shorter sequences at first, and a higher --masked_lm_prob",
                file=sys.stderr,
            )


def unigram_entropy(batches: Iterable[Mapping[str, np.ndarray]]) -> float:
    """Returns the entropy of the distribution of the pieces to predict, in nats.

    With the correction of Miller (1955) for the pieces that a sample lacks: (observed - 1) / (2 n).
    """
    counts = np.zeros(0, np.int64)
    for number, batch in enumerate(batches):
        ids = batch["masked_lm_ids"][batch["masked_lm_weights"] > 0]
        more = np.bincount(ids, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
        if counts.sum() >= _PREDICTIONS or number + 1 == _MAX_BATCHES:
            break
    counts = counts[counts > 0]
    total = counts.sum()
    shares = counts / total
    return float(-np.sum(shares * np.log(shares)) + (len(counts) - 1) / (2 * total))
