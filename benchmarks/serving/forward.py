"""One forward pass on ids, beside the products that it consists of."""

import functools
import json
import os
import sys
from collections.abc import Sequence

import numpy as np

from benchmarks import workers
from benchmarks.serving import layout
from benchmarks.serving.candidates import CANDIDATES

PRODUCTS = "products"
BATCH_SIZE, LENGTH = 8, 128

_FIRST_ORDINARY_ID = 5


def measure(
    folder: str, names: Sequence[str], precision: layout.Precision, rounds: int, steps: int
) -> dict[str, list[workers.Round]]:
    """Runs the products and candidates in turn.

    Args:
        folder: where the models are.
        names: of `CANDIDATES`.
        precision: what they compute in.
        rounds: how often each has its turn.
        steps: of a turn.

    Returns:
        The rounds of each.
    """
    starts = {}
    for name in (PRODUCTS, *names):
        arguments = {"name": name, "folder": folder, "precision": precision}
        starts[name] = functools.partial(
            workers.Worker, name, "benchmarks.serving.forward", arguments
        )
    return workers.take_turns(starts, rounds, steps)


def _make_timers(name: str, folder: str, precision: layout.Precision) -> list[workers.Timer]:
    with open(os.path.join(folder, layout.CONFIG)) as file:
        config = json.load(file)
    if name == PRODUCTS:
        from benchmarks.pretraining.candidates import product_timers
        from benchmarks.pretraining.workload import Workload, encoder_products

        workload = Workload(config, BATCH_SIZE, LENGTH, precision)
        return product_timers(encoder_products(workload), precision)
    predict = CANDIDATES[name].make_predict(folder, precision)
    inputs = _full_inputs(config["vocab_size"])
    return [(1, lambda: predict(inputs))]


def _full_inputs(vocab_size: int) -> dict[str, np.ndarray]:
    """Returns inputs without padding."""
    shape = (BATCH_SIZE, LENGTH)
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(_FIRST_ORDINARY_ID, vocab_size, shape, np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
    }


if __name__ == "__main__":
    workers.serve(lambda: _make_timers(**json.loads(sys.argv[1])))
