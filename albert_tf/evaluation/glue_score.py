"""The overall GLUE score: the mean over its tasks."""

from collections.abc import Mapping

import numpy as np

from albert_tf.data.fine_tuning.task_table import find_task


def task_score(task_name: str, results: Mapping[str, float]) -> float:
    """Returns a task's GLUE score, between -1 and 1.

    It is the mean of the task's official metrics, over MNLI's matched and mismatched sets: Wang et al.
    2018, https://arxiv.org/abs/1804.07461, section 4.

    Args:
        task_name: name of the task.
        results: metrics of an evaluation, as in `eval_results.json`.
    """
    task = find_task(task_name)
    prefixes = [f"{name}_" if name else "" for name in task.sets["dev"]]
    return float(np.mean([results[p + name] for p in prefixes for name in task.metrics]))


def glue_score(results: Mapping[str, Mapping[str, float]]) -> float:
    """Returns the mean of the tasks' scores.

    Args:
        results: task name -> metrics of its evaluation.
    """
    return float(np.mean([task_score(name, metrics) for name, metrics in results.items()]))
