"""The process in which a candidate trains on its batches, or predicts them."""

import json
import sys

from albert_tf.config import AlbertConfig
from benchmarks import workers
from benchmarks.finetuning import samples
from benchmarks.finetuning.candidates import CANDIDATES


def start(
    name: str, config: AlbertConfig, activity: samples.Activity, precision: str, path: str
) -> workers.Worker:
    """Starts a worker; the seconds of its rounds are those of one sequence.

    Args:
        name: of one of `CANDIDATES`.
        config: of the encoder.
        activity: what to time.
        precision: fp32 or bf16, what the layers compute in.
        path: the batches, as `samples.save` wrote them.
    """
    arguments = {
        "name": name,
        "config": config.to_dict(),
        "activity": activity,
        "precision": precision,
        "path": path,
    }
    return workers.Worker(name, "benchmarks.finetuning.worker", arguments)


def _make_timers(name, config, activity, precision, path) -> list[workers.Timer]:
    batches = samples.load(path)
    run = CANDIDATES[name](AlbertConfig.from_dict(config), activity, precision, batches)
    return [(1 / samples.count_sequences(batches), run)]


if __name__ == "__main__":
    workers.serve(lambda: _make_timers(**json.loads(sys.argv[1])))
