"""Times the making of pre-training data on a Dask cluster, next to worker processes without one.

Usage:
    python -m benchmarks.beam --text=books --model=30k-clean.model

The cluster's workers are processes of this machine with one thread each, so that more of them than cores
show the cost of a cluster, not its gain. The last row is with two workers, one of which is killed
when it holds a tenth of the text; Dask starts it again and repeats its tasks.

Seconds are those of `create_pretraining_data.py`, without the start of the cluster. CPU seconds are those
of the command, the workers and the scheduler. Memory is the largest of a worker, without shared pages.
The command fails if a run's records or their order differ from those of the first run.
"""

import contextlib
import dataclasses
import hashlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil

from albert_tf import command_line
from albert_tf.data.pretraining.input_files import find_files
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from benchmarks.harness import Usage, markdown_table, processor, watch

_SHARDS = 4
_SECONDS_BETWEEN_SAMPLES = 0.5
_MIB = 2**20
_MEGABYTE = 1e6
_HEADER = ("workers", "seconds", "MB/s", "CPU s", "MB/CPU s", "worker MiB")


@dataclasses.dataclass(frozen=True)
class BeamOptions:
    """The options of this benchmark."""

    text: str = option("Folder or file of text.")
    model: str = option("SentencePiece model.")
    workers: tuple[str, ...] = option("Numbers of worker processes.", ("1", "2", "4"))
    copies: int = option("Number of copies of the text.", 1, least=1)

    def __post_init__(self):
        check_ranges(self)


class _WorkerUsage:
    """Samples the workers of a cluster in a thread, and kills one of them on demand.

    Args:
        cluster: a `dask.distributed.LocalCluster`.
        kill_at: number of bytes of results; the first worker that holds as many is killed. None for none.

    Attributes:
        killed: process id of the killed worker; None if none was killed.
        worker_mib: the largest memory of a worker that it shares with no other process.
    """

    def __init__(self, cluster: Any, kill_at: float | None):
        self.killed: int | None = None
        self.worker_mib = 0.0
        self._cluster = cluster
        self._kill_at = kill_at
        self._cpu_seconds: dict[int, float] = {}
        self._sampling_seconds = 0.0
        self._sample()
        self._before = sum(self._cpu_seconds.values()) + self._own_seconds()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @property
    def cpu_seconds(self) -> float:
        """CPU time since the start, of the workers and the scheduler."""
        return sum(self._cpu_seconds.values()) + self._own_seconds() - self._before

    def _own_seconds(self) -> float:
        """Returns the CPU time of this process, which has the scheduler, without that of measuring."""
        return time.process_time() - time.thread_time() - self._sampling_seconds

    def _sample(self) -> None:
        for nanny in list(self._cluster.workers.values()):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                process = psutil.Process(nanny.pid)
                times, memory = process.cpu_times(), process.memory_full_info()
                self._cpu_seconds[process.pid] = times.user + times.system
                self.worker_mib = max(self.worker_mib, memory.uss / _MIB)

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_SAMPLES):
            self._sample()
            if self._kill_at is not None and self.killed is None:
                self._kill()
        self._sampling_seconds = time.thread_time()

    def _kill(self) -> None:
        for worker in list(self._cluster.scheduler.workers.values()):
            if worker.nbytes > self._kill_at:
                self.killed = self._cluster.workers[worker.name].pid
                os.kill(self.killed, signal.SIGKILL)
                break

    def __enter__(self) -> "_WorkerUsage":
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._ended.set()
        self._thread.join()


@contextlib.contextmanager
def _cluster(num_workers: int) -> Iterator[Any]:
    try:
        from dask.distributed import LocalCluster
    except ImportError as error:
        raise InputError("needs Dask: pip install 'apache-beam[dask]'") from error
    with LocalCluster(
        n_workers=num_workers, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield cluster


def _run(options: BeamOptions, *flags: str) -> tuple[Usage, str]:
    """Runs `create_pretraining_data.py`; returns its usage and a hash of all records in order."""
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/out.tfrecord"
        usage = watch(
            [
                sys.executable,
                "create_pretraining_data.py",
                f"--input_file={options.text}",
                "--encoding_errors=replace",
                f"--spm_model_file={options.model}",
                f"--output_file={output}",
                f"--num_shards={_SHARDS}",
                f"--dupe_factor={options.copies}",
                "--max_seq_length=512",
                "--max_predictions_per_seq=77",
                *flags,
            ]
        )
        import tensorflow as tf  # not above, where each worker of the cluster would import it

        paths = sorted(tf.io.gfile.glob(f"{folder}/*.tfrecord"))
        hasher = hashlib.sha256()
        for record in tf.data.TFRecordDataset(paths).as_numpy_iterator():
            hasher.update(hashlib.sha256(record).digest())
    return usage, hasher.hexdigest()


def _run_on_cluster(
    options: BeamOptions, num_workers: int, kill_at: float | None = None
) -> tuple[Usage, float, str]:
    """Returns the command's usage with the CPU time of the cluster, a worker's MiB, and the hash."""
    with _cluster(num_workers) as cluster, _WorkerUsage(cluster, kill_at) as workers:
        address = f"--runner_options=--dask_client_address={cluster.scheduler_address}"
        usage, records = _run(options, "--runner=DaskRunner", address)
        cluster.wait_for_workers(num_workers)  # a cluster cannot be closed while one starts
    if kill_at is not None and workers.killed is None:
        raise InputError("no worker was killed; expected a larger text")
    usage.cpu_seconds[0] = workers.cpu_seconds
    return usage, workers.worker_mib, records


def _main(options: BeamOptions) -> None:
    logging.disable(logging.WARNING)  # of Dask's scheduler
    megabytes = sum(file.size for file in find_files([options.text])) / _MEGABYTE
    print(f"{processor()}; {megabytes:.1f} MB of text", flush=True)
    rows: list[list[str]] = []
    expected = ""

    def add(name: str, usage: Usage, worker_mib: float, records: str) -> None:
        nonlocal expected
        expected = expected or records
        if records != expected:
            raise InputError(f"{name}: made other records than the first run")
        rates = (megabytes / usage.seconds, megabytes / usage.all_cpu_seconds)
        cells = (usage.seconds, rates[0], usage.all_cpu_seconds, rates[1])
        rows.append([name, *(f"{cell:.2f}" for cell in cells), f"{worker_mib:.0f}"])
        print(*rows[-1], f"load={os.getloadavg()[0]:.1f}", flush=True)

    for number in options.workers:
        usage, records = _run(options, f"--num_workers={number}")
        add(f"{number}, local", usage, usage.worker_mib, records)
    for number in options.workers:
        add(f"{number}, Dask", *_run_on_cluster(options, int(number)))
    kill_at = megabytes * _MEGABYTE / 10
    add("2, Dask, one killed", *_run_on_cluster(options, 2, kill_at))
    print(markdown_table(_HEADER, rows))


if __name__ == "__main__":
    command_line.run(BeamOptions, _main)
