"""A run that is stopped and killed, again and again, ends equal to the bit to one that was not."""

import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_model
from albert_tf.model_folder import list_states
from albert_tf.models import AlbertEncoder
from albert_tf.training import best_metrics
from tests.end_to_end.runs import as_arguments, read_reports, wait_for, write_flags
from tests.helpers import ROOT
from tests.tasks.animals import write_data

# The script, with two devices.
PROGRAM = """
from albert_tf import command_line
with command_line.quiet_start():
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    from albert_tf.tasks.pretraining_run import PretrainingOptions, run
command_line.run(PretrainingOptions, run)
"""


@pytest.fixture
def options(request, tmp_path):
    masked = request.param == "static"
    return write_flags(tmp_path, masked=masked, dropout=0.1) | {"deterministic": True}


# A command, without further devices.
CLASSIFY = "from albert_tf.commands import classify; classify()"


def start(options, output_dir, program=PROGRAM):
    command = [sys.executable, "-c", program]
    command += as_arguments({**options, "output_dir": output_dir})
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, text=True, **streams)


def run_to_the_end(options, output_dir, program=PROGRAM):
    output, error = (process := start(options, output_dir, program)).communicate(timeout=240)
    assert process.returncode == 0, error
    return output


def run_and_terminate(options, output_dir):
    """Sends SIGTERM to a run that has saved a checkpoint; returns the step that it saves at its end."""
    process = start(options, output_dir)
    first = output_dir / "state" / f"step-{options['save_checkpoints_steps']}.safetensors"
    wait_for(first.exists, process)
    process.terminate()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert error.splitlines()[-1] == "-c: stopped by SIGTERM; the same command resumes"
    step = int(re.search(r"step-(\d+)", list_states(str(output_dir / "state"))[-1])[1])
    assert step < options["num_train_steps"]
    return step


def run_and_kill(options, output_dir, delay, has_reported=True):
    """Kills a run some seconds after its start, or after it has reported; returns whether it was on."""
    path = output_dir / "metrics.jsonl"
    before = path.stat().st_mtime_ns if path.exists() else None
    process = start(options, output_dir)
    if has_reported:
        wait_for(lambda: path.exists() and path.stat().st_mtime_ns != before, process)
    time.sleep(delay)
    was_on = process.poll() is None
    process.kill()
    _, error = process.communicate()
    assert was_on or process.returncode == 0, error
    return was_on


def assert_same_end(one, other):
    """Compares two runs to the bit."""
    for folder in ("state", "best"):
        first, second = (
            {path.name: path.read_bytes() for path in (run / folder).iterdir()}
            for run in (one, other)
        )
        assert "config.json" in first
        assert first == second
    assert (one / "eval_results.json").read_text() == (other / "eval_results.json").read_text()
    assert read_reports(one) == read_reports(other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "options", "objective"),
    [
        ("one_device", "static", "masked_lm"),
        ("mirrored", "dynamic", "masked_lm"),
        ("mirrored", "static", "electra"),
    ],
    indirect=["options"],
)
def test_interrupted_run_ends_equal_to_the_bit(tmp_path, options, strategy, objective):
    options |= {"distribution_strategy": strategy, "num_train_steps": 200, "objective": objective}
    run_to_the_end(options, tmp_path / "whole")
    parts = tmp_path / "parts"
    step = run_and_terminate(options, parts)
    assert run_and_kill(options, parts, 0.1)
    (resumed,) = re.findall(r"resuming .* from step (\d+)", run_to_the_end(options, parts))
    assert int(resumed) >= step
    assert_same_end(tmp_path / "whole", parts)

    lines = read_reports(parts)
    losses = {line["step"]: line["loss"] for line in lines if line["split"] == "eval"}
    assert list(losses) == list(range(0, 201, 20))
    del losses[0]
    best = 200 if objective == "electra" else min(losses, key=losses.get)
    assert best_metrics(str(parts))["step"] == best


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
@pytest.mark.parametrize("options", ["static", "dynamic"], indirect=True)
def test_twenty_kills(tmp_path, options, strategy):
    options |= {"distribution_strategy": strategy, "num_train_steps": 3000}
    run_to_the_end(options, tmp_path / "whole")
    delays = random.Random(5)
    for _ in range(10):
        # While it trains; and at any moment, which may be while it starts or restores.
        assert run_and_kill(options, tmp_path / "parts", delays.uniform(0.0, 1.0))
        assert run_and_kill(options, tmp_path / "parts", delays.uniform(0.0, 10.0), False)
    run_to_the_end(options, tmp_path / "parts")
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def stop_at_any_moment(options, output_dir, delays, number):
    """Sends a signal to a run that trains; returns whether it was on."""
    path = output_dir / "metrics.jsonl"
    before = path.stat().st_mtime_ns if path.exists() else None
    process = start(options, output_dir, CLASSIFY)
    wait_for(
        lambda: (path.exists() and path.stat().st_mtime_ns != before) or process.poll() is not None
    )
    time.sleep(delays.uniform(0.0, 0.3))
    was_on = process.poll() is None
    process.send_signal(number)
    _, error = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), error
    return was_on


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("steps_per_loop", [1, 4])
def test_classifier_that_is_stopped_at_any_moment_ends_as_another(tmp_path, steps_per_loop):
    data, init = tmp_path / "data", tmp_path / "encoder"
    data.mkdir()
    write_data(data)
    config = AlbertConfig.from_json_file(str(data / "albert_config.json"))
    save_model(AlbertEncoder(config, seed=1), str(init))
    shutil.copy(data / "words.model", init / "words.model")
    options = {
        "task_name": "classification",
        "train_file": data / "train.tsv",
        "init_checkpoint": init,
        "do_train": True,
        "do_eval": True,
        "deterministic": True,
        "learning_rate": 1e-3,
        "num_train_steps": 400,
        "save_checkpoints_steps": 50,
        "early_stopping_evaluations": 4,
        "log_steps": 20,
        "steps_per_loop": steps_per_loop,
    }
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_to_the_end(options, whole, CLASSIFY)
    delays = random.Random(steps_per_loop)
    numbers = [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM]
    stopped = [stop_at_any_moment(options, parts, delays, number) for number in numbers]
    assert stopped[0]
    run_to_the_end(options, parts, CLASSIFY)
    assert read_reports(whole) == read_reports(parts)
    for path in (whole / "best").iterdir():
        assert path.read_bytes() == (parts / "best" / path.name).read_bytes()
        for place in (tmp_path, ROOT):
            assert f"{place}/".encode() not in path.read_bytes()
    described = [(run / "state" / "config.json").read_bytes() for run in (whole, parts)]
    assert described[0] == described[1]
