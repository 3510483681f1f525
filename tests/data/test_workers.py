"""Tasks are all done, by as many processes as there are, and a death or an error is named."""

import functools
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from albert_tf.data.workers import run_tasks
from albert_tf.errors import InputError, StoppedError


class Work:
    """Squares numbers, and obeys commands."""

    def __init__(self, offset=0):
        self.offset = offset

    def __call__(self, task):
        if task == "process":
            return os.getpid()
        if task == "imported":
            return "tensorflow" in sys.modules
        if task == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if task == "mistake":
            raise InputError("file, line 7: is wrong")
        if task == "bug":
            raise ZeroDivisionError("by zero")
        return task * task + self.offset


@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_each_task_gives_a_result(num_workers):
    results = run_tasks(functools.partial(Work, 1), iter(range(23)), num_workers)
    assert sorted(results) == [number * number + 1 for number in range(23)]


def test_workers_import_no_tensorflow():
    assert list(run_tasks(Work, ["imported"] * 3, 2)) == [False] * 3


def test_workers_do_not_run_the_script_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import functools\n"
        "from albert_tf.data.workers import run_tasks\n"
        "make_work = functools.partial(functools.partial, pow, 2)\n"
        "print(sorted(run_tasks(make_work, [3, 4, 5], 2)))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).parents[2])},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "[8, 16, 32]\n"


def test_one_worker_or_one_task_needs_no_other_process():
    assert set(run_tasks(Work, ["process"] * 3, 1)) == {os.getpid()}
    assert set(run_tasks(Work, ["process"], 4)) == {os.getpid()}
    assert os.getpid() not in set(run_tasks(Work, ["process"] * 3, 2))


def test_without_forkserver_this_process_does_the_work(monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])  # Windows
    assert set(run_tasks(Work, ["process"] * 3, 2)) == {os.getpid()}


def test_tasks_are_not_drawn_far_ahead():
    drawn = []

    def tasks():
        for number in range(100):
            drawn.append(number)
            yield number

    next(results := run_tasks(Work, tasks(), 2))
    assert len(drawn) <= 4
    results.close()


def test_tasks_and_results_of_megabytes():
    """A pipe holds 64 kB: neither side may wait for the other to empty it."""
    results = list(run_tasks(BigWork, (b"x" * 3_000_000 for _ in range(7)), 3))
    assert [len(result) for result in results] == [6_000_000] * 7


class BigWork:
    def __call__(self, task):
        return task * 2


def test_a_worker_that_dies_is_named():
    message = r"^worker [12] \(process \d+\) was killed by SIGKILL; is the memory full\?$"
    with pytest.raises(StoppedError, match=message):
        list(run_tasks(Work, [1, "die", 2, 3], 2))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_reported_errors_keep_their_message(num_workers):
    with pytest.raises(InputError, match=r"^file, line 7: is wrong$"):
        list(run_tasks(Work, [1, "mistake", 2], num_workers))


def test_other_errors_keep_their_traceback():
    with pytest.raises(RuntimeError, match=r"(?s)worker \d.*Traceback.*ZeroDivisionError: by zero"):
        list(run_tasks(Work, [1, "bug", 2], 2))
