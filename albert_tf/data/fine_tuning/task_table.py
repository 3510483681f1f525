"""The table of all fine-tuning tasks."""

import difflib
from collections.abc import Mapping

from albert_tf.data.fine_tuning.glue import GLUE_TASKS
from albert_tf.data.fine_tuning.own_files import EMBEDDING_TASK, OWN_TASK, TAGGING_TASK
from albert_tf.data.fine_tuning.race import RACE_TASK
from albert_tf.data.fine_tuning.task import Task
from albert_tf.errors import ArgumentError

TASKS: Mapping[str, Task] = {
    task.name: task for task in (*GLUE_TASKS, RACE_TASK, OWN_TASK, TAGGING_TASK, EMBEDDING_TASK)
}


def find_task(name: str) -> Task:
    """Returns the task with a name, in any case.

    Raises:
        ArgumentError: there is no such task.
    """
    task = TASKS.get(name.lower())
    if task is None:
        nearest = difflib.get_close_matches(name.lower(), TASKS)
        hint = f"did you mean {' or '.join(nearest)}? " if nearest else ""
        raise ArgumentError(f"task_name: unknown task '{name}'; {hint}There are {', '.join(TASKS)}")
    return task
