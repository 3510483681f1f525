"""Prints the dev scores of trained folders and their mean, the GLUE score.

Usage:
    python -m benchmarks.glue_score --output_dirs=out/cola,out/mrpc

For a folder that `--num_trials` wrote, it takes the medians of the trials, as in the paper.
"""

import dataclasses
import os
from collections.abc import Mapping

from albert_tf import command_line, files
from albert_tf.data.fine_tuning.glue import GLUE_TASKS
from albert_tf.errors import InputError
from albert_tf.evaluation.glue_score import glue_score, task_score
from albert_tf.options import option
from albert_tf.tasks.common import RESULTS_FILE
from albert_tf.tasks.fine_tuning.trials import TRIALS_FILE, trial_folder
from albert_tf.tasks.trained_folder import LABEL_METADATA_FILE
from benchmarks.harness import markdown_table


@dataclasses.dataclass(frozen=True)
class GlueScoreOptions:
    """The options of this command."""

    output_dirs: tuple[str, ...] = option(
        "Folders of `run_classifier.py --do_train --do_eval`, one for each task."
    )


def read_results(directories: tuple[str, ...]) -> dict[str, Mapping[str, float]]:
    """Returns task name -> metrics of trained folders.

    Raises:
        InputError: a folder was not evaluated, is of no GLUE task, or two are of one.
    """
    results = {}
    for directory in directories:
        name, metrics = _read_folder(directory)
        if name not in {task.name for task in GLUE_TASKS}:
            raise InputError(
                f"--output_dirs: {directory} is of task {name}, which is none of GLUE's"
            )
        if name in results:
            raise InputError(f"--output_dirs: {directory} is the second of task {name}")
        results[name] = metrics
    return results


def _read_folder(directory: str) -> tuple[str, Mapping[str, float]]:
    """Returns the name of the task, and its metrics."""
    trials = os.path.join(directory, TRIALS_FILE)
    if os.path.exists(trials):
        name, _ = _read_folder(trial_folder(directory, 0))
        summary = files.read_json(trials)["summary"]
        return name, {metric: values["median"] for metric, values in summary.items()}
    head = files.read_json(os.path.join(directory, LABEL_METADATA_FILE))
    return head["task_name"], files.read_json(os.path.join(directory, RESULTS_FILE))


def _main(options: GlueScoreOptions) -> None:
    results = read_results(options.output_dirs)
    rows = [(name, f"{100 * task_score(name, metrics):.1f}") for name, metrics in results.items()]
    rows.append((f"mean of {len(results)}", f"{100 * glue_score(results):.1f}"))
    print(markdown_table(("task", "score"), rows))


if __name__ == "__main__":
    command_line.run(GlueScoreOptions, _main)
