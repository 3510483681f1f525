"""The same training with several seeds: median, best and spread, as the paper reports medians of five."""

import dataclasses
import os
import statistics
from collections.abc import Callable

import keras

from albert_tf import files
from albert_tf.tasks.fine_tuning import has_collapsed
from albert_tf.tasks.fine_tuning_options import FineTuningOptions

TRIALS_FILE = "trials.json"


def trial_folder(output_dir: str, number: int) -> str:
    """Returns the folder of a trial, from 0."""
    return os.path.join(output_dir, f"trial-{number}")


def run_trials(
    options: FineTuningOptions, run: Callable[[FineTuningOptions], dict[str, float]]
) -> dict[str, float]:
    """Runs `--num_trials` trainings, each in `trial-<n>` below `--output_dir`.

    Writes `trials.json`: `trials`, the metrics of each; `collapsed`, the numbers of those that collapsed,
    from 0; and `summary`, the median, the best and the spread (greatest less least) of each metric, with
    `--exclude_collapsed` over the other trials, if there are any.

    Returns:
        the medians.
    """
    trials, collapsed = [], []
    for number in range(options.num_trials):
        folder = trial_folder(options.output_dir, number)
        print(f"trial {number + 1} of {options.num_trials} in {folder}")
        seed = options.random_seed + number
        trials.append(
            run(
                dataclasses.replace(
                    options,
                    num_trials=1,
                    exclude_collapsed=False,
                    random_seed=seed,
                    output_dir=folder,
                )
            )
        )
        if has_collapsed(folder):
            collapsed.append(number)
        keras.backend.clear_session()
    excludes = options.exclude_collapsed and len(collapsed) < len(trials)
    kept = [trial for n, trial in enumerate(trials) if not (excludes and n in collapsed)]
    summary = {name: _summarise(name, [trial[name] for trial in kept]) for name in trials[0]}
    results = {"trials": trials, "collapsed": collapsed, "summary": summary}
    files.write_json(os.path.join(options.output_dir, TRIALS_FILE), results)
    if collapsed:
        print(
            f"{len(collapsed)} of {len(trials)} trials collapsed ({', '.join(map(str, collapsed))}); the "
            f"figures below {'leave them out' if excludes else 'include them'}"
        )
    for name, values in summary.items():
        print(f"{name}: " + ", ".join(f"{what} {value:.4f}" for what, value in values.items()))
    return {name: values["median"] for name, values in summary.items()}


def _summarise(name: str, values: list[float]) -> dict[str, float]:
    best = min if name.endswith("loss") else max
    return {
        "median": statistics.median(values),
        "best": best(values),
        "spread": max(values) - min(values),
    }
