import contextlib
import json
import os
import shutil
import signal
import sys

import pytest

from albert_tf.errors import FlagError, InputError
from benchmarks.hosts import __main__ as command
from benchmarks.hosts import workers as workers_module
from benchmarks.hosts.namespaces import Hosts
from benchmarks.hosts.workers import End, Workers, start


def python(program):
    return start([sys.executable, "-c", program])


def test_every_worker_has_the_same_cluster_and_its_own_place():
    hosts = Hosts(3)
    configs = [json.loads(hosts.tf_config(number)) for number in range(3)]
    addresses = ["10.213.0.1:2222", "10.213.0.2:2222", "10.213.0.3:2222"]
    assert [config["cluster"] for config in configs] == 3 * [{"worker": addresses}]
    assert [config["task"]["index"] for config in configs] == [0, 1, 2]


def test_ends_of_workers(monkeypatch):
    monkeypatch.setattr(workers_module, "_SECONDS_TO_END", 20)
    programs = [
        "import sys; print('one\\ntwo', file=sys.stderr); sys.exit(3)",
        "1 / 0",
        "import time; time.sleep(600)",
    ]
    with Workers([python(program) for program in programs]) as workers:
        ends = workers.wait(2)
        process = workers.workers[2].process
    assert [end.status for end in ends] == [3, 1, None]
    assert [end.line for end in ends] == [
        "two",
        "ZeroDivisionError: division by zero [and a traceback]",
        "",
    ]
    assert ends[2].seconds is None
    assert process.returncode == -signal.SIGKILL


def test_a_killed_worker_has_no_last_words():
    with Workers([python("import os; os.write(2, b'half'); os.kill(os.getpid(), 9)")]) as workers:
        assert workers.wait(1)[0][1:] == (-signal.SIGKILL, "")


def test_worker_that_does_not_train_is_named_with_its_last_line():
    with (
        Workers([python("raise SystemExit('no records')")]) as workers,
        pytest.raises(InputError, match="host 0 does not train: no records"),
    ):
        workers.wait_for(lambda: False)
    with (
        Workers([python("raise SystemExit('no records')")]) as workers,
        pytest.raises(InputError, match="host 0: no records"),
    ):
        workers.finish()


def test_rows_of_a_fault():
    ends = [End(11.6, 1, "error: lost"), End(None, None, "")]
    assert command.fault_rows("host 1 is frozen", ends, 57) == [
        ["host 1 is frozen", "host 0", "12", "1", "error: lost", "57"],
        ["", "host 1", "runs on", "", "", ""],
    ]


def test_steps_are_timed_between_reports(tmp_path):
    program = (
        "import json, sys, time\n"
        "for step in range(1, 1000):\n"
        "    time.sleep(0.05)\n"
        "    with open(sys.argv[1] + '/metrics.jsonl', 'a') as file:\n"
        "        file.write(json.dumps({'step': step, 'loss': 1.0}) + '\\n')\n"
    )
    process = start([sys.executable, "-c", program, str(tmp_path)])
    with Workers([process]) as workers:
        assert 0.05 < command.seconds_per_step(workers, str(tmp_path)) < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": ("curve",)}, "--parts: received 'curve'; expected curves or bytes or links"),
        ({"faults": ("fire",)}, "--faults: received 'fire'; expected kill or link or freeze"),
        ({"hosts": ("two",)}, "--hosts: received 'two'; expected a positive integer"),
        ({"megabits": ("0",)}, "--megabits: received '0'; expected a positive integer"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(FlagError, match=message):
        command.HostsOptions(**options)


# The second host sends a megabyte to the first one; both end after it.
TALK = """
import json, os, socket, sys
config = json.loads(os.environ["TF_CONFIG"])
host, port = config["cluster"]["worker"][0].split(":")
if config["task"]["index"] == 0:
    with socket.create_server((host, int(port))) as server:
        connection, _ = server.accept()
        count = 0
        while received := connection.recv(65536):
            count += len(received)
    assert count == 1_000_000, count
else:
    while True:
        try:
            connection = socket.create_connection((host, int(port)), 5)
            break
        except ConnectionRefusedError:
            pass
    connection.sendall(b"x" * 1_000_000)
"""


@pytest.mark.slow
def test_hosts_talk_over_their_links():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and `ip`, for network namespaces")
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(Hosts(2))
        except InputError as error:
            pytest.skip(f"needs network namespaces: {error}")
        hosts.limit(1, 20)
        with hosts.start([sys.executable, "-c", TALK]) as workers:
            workers.finish()
        assert 1_000_000 < hosts.bytes_on_link(0) < 1_300_000
        hosts.cut(1)
        with hosts.start([sys.executable, "-c", TALK]) as workers:
            ends = workers.wait(1)
    assert ends[1].status == 1
    assert "Error" in ends[1].line
    assert not os.path.exists(f"/run/netns/{hosts.name(0)}")
