"""Worker processes that apply a function to tasks."""

import concurrent.futures
import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from albert_tf.errors import StoppedError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

# One that a worker does, and one that waits for it.
_TASKS_PER_WORKER = 2

# The function of this worker.
_work: Callable[[Any], Any]


def run_tasks(
    work: Callable[[_Task], _Result], tasks: Iterable[_Task], num_workers: int
) -> Iterator[_Result]:
    """Yields the results of tasks, in the order in which they complete.

    The function, tasks and results have to be picklable. Tasks are drawn shortly before they are done, so
    that they need not fit in memory together. With one worker, or a single task, this process does the
    work: another one takes seconds to start, as it imports TensorFlow.
    """
    tasks = iter(tasks)
    first = list(itertools.islice(tasks, 2))
    tasks = itertools.chain(first, tasks)
    if num_workers == 1 or len(first) < 2:
        # Otherwise each collection of garbage passes over TensorFlow's objects, 15 % of the time.
        gc.freeze()
        try:
            yield from map(work, tasks)
        finally:
            gc.unfreeze()
        return
    others = multiprocessing.active_children()
    running: set[concurrent.futures.Future] = set()
    # Forking this process would not copy its threads, e.g. TensorFlow's.
    executor = concurrent.futures.ProcessPoolExecutor(
        num_workers, multiprocessing.get_context("spawn"), _start, (pickle.dumps(work),)
    )
    try:
        some = itertools.islice(tasks, _TASKS_PER_WORKER * num_workers)
        running = {executor.submit(_do, task) for task in some}
        while running:
            done, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in done:
                yield future.result()
                running |= {executor.submit(_do, task) for task in itertools.islice(tasks, 1)}
    except BrokenProcessPool as error:
        raise StoppedError("a worker process died; is the memory full?") from error
    finally:
        if running:  # after an error, or Ctrl-C
            for worker in set(multiprocessing.active_children()).difference(others):
                worker.terminate()
        executor.shutdown(cancel_futures=True)


def _start(work: bytes) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # TensorFlow writes messages when it is imported.
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        _work = pickle.loads(work)
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
    gc.freeze()


def _end_with_parent() -> None:
    """Ends this process if its parent is killed, which could not end its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do(task: Any) -> Any:
    return _work(task)
