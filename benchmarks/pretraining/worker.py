"""The process in which a candidate, or the products alone, run."""

import dataclasses
import json
import sys

from benchmarks import workers
from benchmarks.pretraining.workload import Workload, forward_products

PRODUCTS = "products"


class Worker(workers.Worker):
    """The parent's end of a worker.

    Args:
        name: `PRODUCTS` or one of `candidates.CANDIDATES`.
        workload: what to run.
    """

    def __init__(self, name: str, workload: Workload):
        arguments = {"name": name, **dataclasses.asdict(workload)}
        super().__init__(name, "benchmarks.pretraining.worker", arguments)


def _make_timers(name: str, workload: Workload) -> list[workers.Timer]:
    from benchmarks.pretraining.candidates import CANDIDATES, product_timers

    if name == PRODUCTS:
        # A forward pass counts each of them `count` times, and the backward pass twice as much.
        timers = product_timers(forward_products(workload), workload.precision)
        return [(3 * count, step) for count, step in timers]
    return [(1, CANDIDATES[name](workload))]


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    workers.serve(lambda: _make_timers(given.pop("name"), Workload(**given)))
