"""Worker processes that apply a function to tasks, and report which worker died.

The workers are forked from a server process with few imports, as forking this process would not copy its
threads, e.g. TensorFlow's. `concurrent.futures` does not tell which of its processes died.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import NamedTuple, TypeVar

from albert_tf.errors import ReportedError, StoppedError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_Work = Callable[[_Task], _Result]


class _Worker(NamedTuple):
    """A worker process and this process' end of the pipe to it."""

    process: multiprocessing.process.BaseProcess
    pipe: Connection

    def __str__(self) -> str:
        return f"{self.process.name} (process {self.process.pid})"


def run_tasks(
    make_work: Callable[[], _Work], tasks: Iterable[_Task], num_workers: int
) -> Iterator[_Result]:
    """Yields the results of tasks, in the order in which they complete.

    Args:
        make_work: called once in each worker, to make the function for the tasks. It has to be picklable,
            as well as tasks and results.
        tasks: drawn one ahead of the workers, so that they need not fit in memory together.
        num_workers: maximum number of processes. With 1, or a single task, and on Windows this process
            does the work.

    Raises:
        StoppedError: a worker died.
        ReportedError: raised by a task.
        RuntimeError: any other error of a task, with its traceback.
    """
    tasks = iter(tasks)
    first = list(itertools.islice(tasks, 2))
    tasks = itertools.chain(first, tasks)
    can_start = "forkserver" in multiprocessing.get_all_start_methods()
    if num_workers == 1 or len(first) < 2 or not can_start:
        yield from map(make_work(), tasks)
        return
    workers: list[_Worker] = []
    try:
        yield from _deal(make_work, tasks, num_workers, workers)
    finally:
        for worker in workers:
            worker.pipe.close()
            worker.process.terminate()
            worker.process.join()


def _deal(
    make_work: Callable[[], _Work],
    tasks: Iterator[_Task],
    num_workers: int,
    workers: list[_Worker],
) -> Iterator[_Result]:
    """Assigns tasks to `workers`, which are started as needed, and yields the results."""
    idle: list[_Worker] = []
    busy: dict[Connection, _Worker] = {}
    for task in tasks:
        if not idle and len(workers) < num_workers:
            workers.append(_start(make_work, len(workers) + 1))
            idle.append(workers[-1])
        if not idle:
            for worker in _wait_for(busy):
                yield _receive(worker)
                idle.append(worker)
        worker = idle.pop()
        _send(worker, task)
        busy[worker.pipe] = worker
    while busy:
        for worker in _wait_for(busy):
            yield _receive(worker)


def _start(make_work: Callable[[], _Work], number: int) -> _Worker:
    context = multiprocessing.get_context("forkserver")
    _start_server(context)
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_work, args=(make_work, theirs), name=f"worker {number}", daemon=True
    )
    with _hidden_main():
        process.start()
    theirs.close()  # so that its death closes the pipe
    return _Worker(process, ours)


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """Keeps a worker from importing the main script."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _start_server(context: multiprocessing.context.ForkServerContext) -> None:
    """Starts the process that workers are forked from, unless it is running.

    It finds modules only by PYTHONPATH. Its stderr and that of the workers is discarded, because imports
    may write messages there. A worker's errors come through its pipe.
    """
    context.set_forkserver_preload([__name__])
    path = os.environ.get("PYTHONPATH")
    stderr = os.dup(2)
    try:
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        forkserver.ensure_running()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.environ.pop("PYTHONPATH")
        if path is not None:
            os.environ["PYTHONPATH"] = path


def _wait_for(busy: dict[Connection, _Worker]) -> list[_Worker]:
    """Waits for workers that have answered or died, and removes them from `busy`."""
    return [busy.pop(pipe) for pipe in wait(list(busy))]


def _send(worker: _Worker, task: _Task) -> None:
    try:
        worker.pipe.send(task)
    except OSError as error:
        raise StoppedError(_describe_death(worker)) from error


def _receive(worker: _Worker) -> _Result:
    try:
        result, error = worker.pipe.recv()
    except (EOFError, OSError) as closed:
        raise StoppedError(_describe_death(worker)) from closed
    if isinstance(error, ReportedError):
        raise error
    if error is not None:
        raise RuntimeError(f"{worker} failed:\n{error}")
    return result


def _describe_death(worker: _Worker) -> str:
    worker.process.join()
    code = worker.process.exitcode
    how = f"exited with code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
    hint = "; is the memory full?" if -code == signal.SIGKILL else ""
    return f"{worker} {how}{hint}"


def _work(make_work: Callable[[], _Work], pipe: Connection) -> None:
    """Does a worker's tasks until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its workers
    work = None
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            if work is None:
                work = make_work()
            answer = work(task), None
        except ReportedError as error:
            answer = None, error
        except Exception:
            answer = None, traceback.format_exc()
        try:
            pipe.send(answer)
        except BrokenPipeError:  # the parent is gone
            os._exit(1)
