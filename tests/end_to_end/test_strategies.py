"""Workers give the curve of one device, as replicas do in tests/training, and end together."""

import json
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.model_folder import list_states
from albert_tf.tasks.pretraining_run import PretrainingOptions, run
from tests.end_to_end.runs import as_arguments, read_reports, wait_for, write_flags
from tests.helpers import ROOT

STEPS = 20
TWO_WORKERS = {"distribution_strategy": "multi_worker_mirrored"}

pytestmark = pytest.mark.slow


@pytest.fixture
def flags(tmp_path):
    more = {"eval_batch_size": 8, "num_train_steps": STEPS, "warmup_steps": 5, "log_steps": 1}
    return write_flags(tmp_path, train=120, dev=21) | {**more, "save_checkpoints_steps": 10}


def start_workers(flags):
    """Starts the script for two workers of a cluster on this machine."""
    listeners = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{listener.getsockname()[1]}" for listener in listeners]
    for listener in listeners:
        listener.close()
    workers = []
    for index in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        workers.append(
            subprocess.Popen(
                [sys.executable, ROOT / "run_pretraining.py", *as_arguments(flags)],
                env={**os.environ, "TF_CONFIG": json.dumps(task), "CUDA_VISIBLE_DEVICES": ""},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return workers


def read_curve(folder):
    train = [line for line in read_reports(folder) if line["split"] == "train"]
    assert [line["step"] for line in train] == list(range(1, STEPS + 1))
    results = json.loads((folder / "eval_results.json").read_text())
    return {
        "masked_lm_loss": [line["masked_lm_loss"] for line in train],
        "sentence_order_loss": [line["sentence_order_loss"] for line in train],
        "gradient_norm": [line["gradient_norm"] for line in train],
        "loss on held-out records": [results["loss"]],
    }


def test_curve_is_that_of_one_device(tmp_path, flags):
    files = {name: (flags[name],) for name in ("input_file", "eval_input_file")}
    run(PretrainingOptions(**{**flags, **files, "output_dir": str(tmp_path / "one device")}))
    for worker in start_workers({**flags, **TWO_WORKERS, "output_dir": tmp_path / "other"}):
        output, _ = worker.communicate(timeout=200)
        assert worker.returncode == 0, output
    one, curve = read_curve(tmp_path / "one device"), read_curve(tmp_path / "other")
    # The gradients are clipped, or this would not see where that happens.
    assert max(one["gradient_norm"]) > 1.0
    for key, values in one.items():
        np.testing.assert_allclose(curve[key], values, rtol=1e-5, err_msg=key)


def start_long_run(flags, output_dir):
    more = {"num_train_steps": 10000, "log_steps": 100}
    return start_workers({**flags, **TWO_WORKERS, "output_dir": output_dir, **more})


def wait_for_checkpoint(folder, workers):
    wait_for(lambda: list_states(str(folder / "state")), *workers)


def test_sigterm_of_one_worker_saves_and_ends_all(tmp_path, flags):
    workers = start_long_run(flags, tmp_path / "out")
    wait_for_checkpoint(tmp_path / "out", workers)
    workers[1].send_signal(signal.SIGTERM)
    for worker in workers:
        output, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0, output
        assert "stopped by SIGTERM; the same command resumes" in output.splitlines()[-1]


def check_lost_worker(worker):
    """Waits until a worker has ended, because another one was lost."""
    # TensorFlow asks every 30 seconds whether the others are there, and waits 3 x 10 seconds.
    output, _ = worker.communicate(timeout=150)
    assert worker.returncode == 1, output
    assert "Traceback" not in output
    assert "restart all workers" in output.splitlines()[-1]
    assert len(output.splitlines()[-1]) < 400


FAULTS = [(0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGSTOP)]


@pytest.mark.parametrize(("lost", "fault"), FAULTS)
def test_loss_of_one_worker_ends_the_other_with_one_line(tmp_path, flags, lost, fault):
    workers = start_long_run(flags, tmp_path / "out")
    wait_for_checkpoint(tmp_path / "out", workers)
    workers[lost].send_signal(fault)
    check_lost_worker(workers[1 - lost])
    workers[lost].kill()
    workers[lost].communicate()
