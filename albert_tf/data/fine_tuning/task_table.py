"""The table of all fine-tuning tasks."""

import difflib
from collections.abc import Iterable, Mapping

from albert_tf.data.fine_tuning.glue import GLUE_TASKS
from albert_tf.data.fine_tuning.race import RACE_TASK
from albert_tf.data.fine_tuning.task import Task
from albert_tf.errors import InputError

SQUAD_TASK = Task(name="squad", metrics=(), kind="question_answering")
# Of the user's own data, which decide the rest.
OWN_TASK = Task(name="tsv", metrics=("accuracy",))

TASKS: Mapping[str, Task] = {
    task.name: task for task in (*GLUE_TASKS, RACE_TASK, SQUAD_TASK, OWN_TASK)
}


def find_task(name: str, others: Iterable[str] = ()) -> Task:
    """Returns the task with a name, in any case.

    Args:
        name: the name.
        others: names of tasks that are no rows of the table, for the message.
    """
    task = TASKS.get(name.lower())
    if task is None:
        names = (*TASKS, *others)
        nearest = difflib.get_close_matches(name.lower(), names)
        hint = f"did you mean {' or '.join(nearest)}? " if nearest else ""
        raise InputError(f"task_name: unknown task '{name}'; {hint}There are {', '.join(names)}")
    return task
