"""Times all-reduces between hosts, as a worker of a cluster.

Usage, for each worker with its TF_CONFIG:
    python -m benchmarks.hosts.all_reduce --output_file=seconds.json
"""

import dataclasses
import statistics
import time

from albert_tf import command_line, files
from albert_tf.options import option

with command_line.quiet_start():
    import tensorflow as tf

from albert_tf.training import make_strategy

# Consecutive all-reduces in a graph, and how often it runs.
_IN_ROW, _ROUNDS = 20, 15


@dataclasses.dataclass(frozen=True)
class AllReduceOptions:
    """The options of this program."""

    output_file: str = option("JSON file for the seconds, which the first worker writes.")
    sizes: tuple[str, ...] = option("Numbers of float32 values.", ("1", "1000000"))


def _main(options: AllReduceOptions) -> None:
    strategy = make_strategy("multi_worker_mirrored")
    seconds = {size: _time(strategy, int(size)) for size in options.sizes}
    if strategy.extended.should_checkpoint:
        files.write_json(options.output_file, seconds)


def _time(strategy: tf.distribute.Strategy, size: int) -> float:
    """Returns the median seconds of an all-reduce."""

    def compute():
        values = tf.random.normal([size])
        for _ in range(_IN_ROW):
            values = 0.5 * tf.distribute.get_replica_context().all_reduce("sum", values)
        return values

    step = tf.function(lambda: strategy.run(compute), autograph=False)
    step()  # compiles
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) / _IN_ROW)
    return statistics.median(times)


if __name__ == "__main__":
    command_line.run(AllReduceOptions, _main)
