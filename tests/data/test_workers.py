"""Tasks are all done, by as many processes as there are, and a death or an error is reported."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from albert_tf.data.workers import run_tasks
from albert_tf.errors import StoppedError
from tests.data.work import work
from tests.helpers import ROOT, refused


@pytest.mark.parametrize("num_workers", [1, 2])
def test_each_task_gives_a_result_and_none_is_drawn_far_ahead(num_workers):
    """Some are megabytes, and so are their results: neither side waits for the other's pipe."""
    drawn = []

    def tasks():
        for task in ["process", *[b"x" * 3_000_000] * 10, *range(23), "process"]:
            drawn.append(task)
            yield task

    results = run_tasks(work, tasks(), num_workers)
    received = [next(results)]
    assert len(drawn) <= 5
    received += results
    numbers = [each for each in received if isinstance(each, int)]
    assert sorted(numbers) == [number * number for number in range(23)]
    assert [len(each) for each in received if isinstance(each, bytes)] == [6_000_000] * 10
    assert (str(os.getpid()) in received) == (num_workers == 1)
    # A single task needs no other process.
    assert list(run_tasks(work, ["process"], num_workers)) == [str(os.getpid())]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_errors_are_reported(num_workers):
    with refused(r"^file, line 7: is wrong$") as error:
        list(run_tasks(work, [1, "mistake", 2], num_workers))
    if num_workers > 1:  # with the traceback of the worker
        assert 'in work\n    raise InputError("file' in str(error.value.__cause__)
        with pytest.raises(StoppedError, match=r"^a worker process died; is the memory full\?$"):
            list(run_tasks(work, [1, "die", 2, 3], num_workers))


def test_workers_end_with_their_parent():
    program = "import time; from albert_tf.data.workers import run_tasks; "
    program += "print(next(run_tasks(time.sleep, [0, 0, 600, 600, 600], 2)), flush=True)"
    command, root = [sys.executable, "-c", program], ROOT
    parent = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"None\n"
    workers = psutil.Process(parent.pid).children(recursive=True)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while any(worker.is_running() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)
