"""Tasks are all done, by as many processes as there are, and a death or an error is reported."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import psutil
import pytest

from albert_tf.data.workers import run_tasks
from albert_tf.errors import InputError, StoppedError


def work(task):
    """Squares a number, or obeys a command."""
    if task == "process":
        return os.getpid()
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "mistake":
        raise InputError("file, line 7: is wrong")
    if task == "bug":
        raise ZeroDivisionError("by zero")
    if isinstance(task, bytes):
        return task * 2
    return task * task


@pytest.mark.parametrize("num_workers", [1, 3])
def test_each_task_gives_a_result(num_workers):
    results = run_tasks(work, iter(range(23)), num_workers)
    assert sorted(results) == [number * number for number in range(23)]
    processes = set(run_tasks(work, ["process"] * 3, num_workers))
    assert (os.getpid() in processes) == (num_workers == 1)
    # A single task needs no other process.
    assert list(run_tasks(work, ["process"], num_workers)) == [os.getpid()]


def test_tasks_are_not_drawn_far_ahead():
    """They are megabytes, and so are their results: neither side waits for the other's pipe."""
    drawn = []

    def tasks():
        for number in range(10):
            drawn.append(number)
            yield b"x" * 3_000_000

    results = run_tasks(work, tasks(), 2)
    assert len(next(results)) == 6_000_000
    assert len(drawn) <= 5
    assert [len(result) for result in results] == [6_000_000] * 9


@pytest.mark.parametrize("num_workers", [1, 2])
def test_errors_are_reported(num_workers):
    with pytest.raises(InputError, match=r"^file, line 7: is wrong$"):
        list(run_tasks(work, [1, "mistake", 2], num_workers))
    with pytest.raises(ZeroDivisionError) as error:
        list(run_tasks(work, [1, "bug", 2], num_workers))
    if num_workers > 1:  # with the traceback of the worker
        assert 'in work\n    raise ZeroDivisionError("by zero")' in str(error.value.__cause__)
        with pytest.raises(StoppedError, match=r"^a worker process died; is the memory full\?$"):
            list(run_tasks(work, [1, "die", 2, 3], num_workers))


def test_workers_end_with_their_parent():
    program = "import time; from albert_tf.data.workers import run_tasks; "
    program += "print(next(run_tasks(time.sleep, [0, 0, 600, 600, 600], 2)), flush=True)"
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=pathlib.Path(__file__).parents[2],
        stdout=subprocess.PIPE,
    )
    assert parent.stdout.readline() == b"None\n"
    workers = psutil.Process(parent.pid).children(recursive=True)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while any(worker.is_running() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)
