import json
import os
import socket
import subprocess
import sys

import pytest

from albert_tf.training import make_strategy, strategy
from tests.helpers import refused


def test_a_process_has_one_strategy_of_a_name():
    assert make_strategy("mirrored") is make_strategy("mirrored", None)


def config_of_worker(address, index=0):
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": [address]}, "task": task})


NO_TASK = "TF_CONFIG does not name this task: "
NO_ADDRESSES = ("localhost", "localhost:port", "localhost:0", "localhost:65536", "2222")


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        (None, "the environment variable TF_CONFIG is not set; expected"),
        ("{worker", r"TF_CONFIG is not JSON \(.*\); expected"),
        ('["localhost:1"]', NO_TASK),
        ('{"cluster": {"worker": ["localhost:1"]}}', NO_TASK),
        (config_of_worker("localhost:1", index=1), NO_TASK),
        *((config_of_worker(one), f"has the address '{one}'; exp") for one in NO_ADDRESSES),
    ],
)
def test_invalid_tf_config_is_named(monkeypatch, tf_config, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if tf_config is not None:
        monkeypatch.setenv("TF_CONFIG", tf_config)
    with refused(message):
        make_strategy("multi_worker_mirrored")


def test_missing_tpu_is_named():
    with refused("tpu: expected the name of a TPU; received none"):
        make_strategy("tpu", None)
    with refused("tpu=local: there is no such TPU"):
        make_strategy("tpu", "local")


@pytest.mark.slow
def test_port_that_another_process_uses():
    """In a process of its own, as the strategy has to be the first thing in it."""
    with socket.create_server(("localhost", 0)) as listener:
        tf_config = config_of_worker(f"localhost:{listener.getsockname()[1]}")
        run = subprocess.run(
            [sys.executable, "-c", MAKE_STRATEGY],
            env={**os.environ, "TF_CONFIG": tf_config, "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    reason = "Could not start gRPC server; another process may use its port; TF_CONFIG is "
    assert run.stdout.startswith(f"this worker cannot start: {reason}")


MAKE_STRATEGY = """
from albert_tf.errors import InputError
from albert_tf.training import make_strategy, strategy
try:
    make_strategy("multi_worker_mirrored")
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("--xla_other=1", "--xla_other=1 --xla_gpu_enable_triton_gemm=false"),
        ("--xla_gpu_enable_triton_gemm=true", "--xla_gpu_enable_triton_gemm=true"),
    ],
)
def test_gpus_compile_without_kernels_of_triton_unless_told_otherwise(monkeypatch, before, after):
    monkeypatch.setenv("XLA_FLAGS", before)
    monkeypatch.setattr(strategy, "has_gpu", lambda: True)
    # XLA reads its flags when the devices are made, and never again.
    monkeypatch.setattr(strategy, "_make_once", lambda *_: os.environ["XLA_FLAGS"])
    assert make_strategy("one_device") == after
