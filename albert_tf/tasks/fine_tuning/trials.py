"""Several trainings with different seeds, as the paper reports medians of five."""

import dataclasses
import os
import statistics
from collections.abc import Callable

import keras

from albert_tf import files
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.training.reports import read_reports

TRIALS_FILE = "trials.json"

# Name under which an evaluation in training reports whether the model has collapsed, 0 or 1.
COLLAPSED = "collapsed"


def trial_folder(output_dir: str, number: int) -> str:
    """Returns the folder of a trial, numbered from 0."""
    return os.path.join(output_dir, f"trial-{number}")


def trials_of(options: FineTuningOptions) -> list[FineTuningOptions]:
    """Returns the options of each of the `--num_trials` trainings; those of one training unchanged."""
    if options.num_trials == 1:
        return [options]
    return [
        dataclasses.replace(
            options,
            num_trials=1,
            exclude_collapsed=False,
            random_seed=options.random_seed + number,
            output_dir=trial_folder(options.output_dir, number),
        )
        for number in range(options.num_trials)
    ]


def run_trials(
    options: FineTuningOptions, run: Callable[[FineTuningOptions], dict[str, float]]
) -> dict[str, float]:
    """Runs `--num_trials` trainings, each in `trial-<n>` below `--output_dir`.

    Writes `trials.json`: `trials`, the metrics of each; `collapsed`, the numbers of those that collapsed,
    from 0; and `summary`, the median, the best and the spread (maximum minus minimum) of each metric.
    With `--exclude_collapsed` the summary is over the other trials, if there are any.

    Returns:
        The medians.
    """
    trials, collapsed = [], []
    for number, trial in enumerate(trials_of(options)):
        print(f"trial {number + 1} of {options.num_trials} in {trial.output_dir}")
        trials.append(run(trial))
        if has_collapsed(trial.output_dir):
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


def has_collapsed(output_dir: str) -> bool:
    """Returns whether a model was collapsed in all evaluations after the warm-up."""
    evaluations = [line for line in read_reports(output_dir) if line["split"] == "eval"]
    after_warmup = [line[COLLAPSED] for line in evaluations if COLLAPSED in line]
    return bool(after_warmup) and all(after_warmup)


def _summarise(name: str, values: list[float]) -> dict[str, float]:
    best = min if name.endswith("loss") else max
    return {
        "median": statistics.median(values),
        "best": best(values),
        "spread": max(values) - min(values),
    }
