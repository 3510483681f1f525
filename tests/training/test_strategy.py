import json
import os
import socket
import subprocess
import sys

import pytest

from albert_tf.errors import InputError
from albert_tf.training import make_strategy


def test_a_process_has_one_strategy_of_a_name():
    assert make_strategy("mirrored") is make_strategy("mirrored", None)


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        (None, "the environment variable TF_CONFIG is not set; expected"),
        ("{worker", r"TF_CONFIG is not JSON \(.*\); expected"),
        ('["localhost:1"]', "TF_CONFIG does not name this task: "),
        ('{"cluster": {"worker": ["localhost:1"]}}', "TF_CONFIG does not name this task: "),
        (
            '{"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 1}}',
            "TF_CONFIG does not name this task: ",
        ),
        *(
            (
                f'{{"cluster": {{"worker": ["{address}"]}}, "task": {{"type": "worker", "index": 0}}}}',
                f"TF_CONFIG has the address '{address}'; expected 'host:port', with a port from",
            )
            for address in ("localhost", "localhost:port", "localhost:0", "localhost:65536", "2222")
        ),
    ],
)
def test_invalid_tf_config_is_named(monkeypatch, tf_config, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if tf_config is not None:
        monkeypatch.setenv("TF_CONFIG", tf_config)
    with pytest.raises(InputError, match=message):
        make_strategy("multi_worker_mirrored")


@pytest.mark.parametrize(
    ("tpu", "message"),
    [
        (None, "tpu: expected the name of a TPU; received none"),
        ("local", "tpu=local: there is no such TPU"),
    ],
)
def test_missing_tpu_is_named(tpu, message):
    with pytest.raises(InputError, match=message):
        make_strategy("tpu", tpu)


@pytest.mark.slow
def test_port_that_another_process_uses():
    """In a process of its own, as the strategy has to be the first thing in it."""
    with socket.create_server(("localhost", 0)) as listener:
        address = f"localhost:{listener.getsockname()[1]}"
        cluster = {"cluster": {"worker": [address]}, "task": {"type": "worker", "index": 0}}
        run = subprocess.run(
            [sys.executable, "-c", MAKE_STRATEGY],
            env={**os.environ, "TF_CONFIG": json.dumps(cluster), "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    assert run.stdout.startswith(
        "this worker cannot start: Could not start gRPC server; another process may use its port; "
        "TF_CONFIG is "
    )


MAKE_STRATEGY = """
from albert_tf.errors import InputError
from albert_tf.training import make_strategy
try:
    make_strategy("multi_worker_mirrored")
except InputError as error:
    print(error)
"""
