"""The tasks of GLUE that benchmarks train on: those with classes and one dev set."""

from collections.abc import Iterable

from albert_tf.data.fine_tuning.glue import GLUE_TASKS
from benchmarks.harness import check_choices

_TASKS = tuple(
    task.name
    for task in GLUE_TASKS
    if task.kind == "classification" and list(task.sets.get("dev", ())) == [""]
)


def check_tasks(names: Iterable[str]) -> None:
    """Checks `--tasks`, in any case.

    Raises:
        FlagError: one is none of GLUE's tasks with classes and one dev set.
    """
    check_choices("tasks", [name.lower() for name in names], _TASKS)
