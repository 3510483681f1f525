"""Prints the dev scores of trained folders and their mean, the GLUE score.

Usage:
    python -m benchmarks.glue_score --output_dirs=out/cola,out/mrpc
"""

import dataclasses
import os
from collections.abc import Mapping

import command_line
from albert_tf import files
from albert_tf.data.glue import GLUE_TASKS
from albert_tf.errors import InputError
from albert_tf.evaluation.glue_score import glue_score, task_score
from albert_tf.options import option
from benchmarks.tables import markdown_table


@dataclasses.dataclass(frozen=True)
class GlueScoreOptions:
    """What the command is told."""

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
        name = files.read_json(os.path.join(directory, "task.json"))["task_name"]
        if name not in {task.name for task in GLUE_TASKS}:
            raise InputError(
                f"--output_dirs: {directory} is of task {name}, which is none of GLUE's"
            )
        if name in results:
            raise InputError(f"--output_dirs: {directory} is the second of task {name}")
        results[name] = files.read_json(os.path.join(directory, "eval_results.json"))
    return results


def _main(options: GlueScoreOptions) -> None:
    results = read_results(options.output_dirs)
    rows = [(name, f"{100 * task_score(name, metrics):.1f}") for name, metrics in results.items()]
    rows.append((f"mean of {len(results)}", f"{100 * glue_score(results):.1f}"))
    print(markdown_table(("task", "score"), rows))


if __name__ == "__main__":
    command_line.run(GlueScoreOptions, _main)
