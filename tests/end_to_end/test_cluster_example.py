"""The launchers of `examples/cluster` tell each worker its place."""

import json
import os
import subprocess

import pytest

from tests.helpers import ROOT

FOLDER = ROOT / "examples" / "cluster"


def run_worker(environment):
    return subprocess.run(
        [FOLDER / "worker.sh", "printenv", "TF_CONFIG"],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def slurm(tmp_path):
    scontrol = tmp_path / "scontrol"
    answer = '[ "$*" = "show hostnames node[1-2]" ] && printf "node1\\nnode2\\n"'
    scontrol.write_text(f"#!/bin/sh\n{answer}\n")
    scontrol.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {"PATH": path, "SLURM_STEP_NODELIST": "node[1-2]", "SLURM_PROCID": "1"}


def test_worker_of_slurm(slurm):
    assert json.loads(run_worker(slurm).stdout) == {
        "cluster": {"worker": ["node1:2222", "node2:2222"]},
        "task": {"type": "worker", "index": 1},
    }


def test_worker_of_an_indexed_job():
    pod = {"JOB_COMPLETION_INDEX": "0", "JOB_NAME": "albert", "SERVICE": "svc", "WORKERS": "3"}
    assert json.loads(run_worker({**pod, "PORT": "7000"}).stdout) == {
        "cluster": {"worker": [f"albert-{number}.svc:7000" for number in range(3)]},
        "task": {"type": "worker", "index": 0},
    }


def test_worker_of_nothing():
    result = run_worker({})
    assert result.returncode == 2
    assert result.stderr.startswith("worker.sh: expected SLURM_PROCID, which srun sets, or JOB_")
