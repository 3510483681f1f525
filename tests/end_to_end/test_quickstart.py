"""The quick start: its commands fit the scripts, finished steps are not repeated, and it completes."""

import math
import pathlib
import re
import subprocess
import sys
import typing

import pytest

from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.pretraining_data import PretrainingDataOptions
from albert_tf.tasks.pretraining_run import PretrainingOptions
from examples.quickstart import run

OPTIONS = {
    "create_pretraining_data.py": PretrainingDataOptions,
    "run_pretraining.py": PretrainingOptions,
    "run_classifier.py": FineTuningOptions,
}
STEPS = run.make_steps(pathlib.Path("out"))


def arguments_of(monkeypatch, step):
    """Returns the arguments of the one command that a step runs."""
    commands = []

    def record(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", record)
        step.run()
    ((python, script, *arguments),) = commands
    assert python == sys.executable
    assert (run.ROOT / script).is_file()
    return arguments


@pytest.mark.parametrize("step", STEPS[1:], ids=lambda step: step.title)
def test_the_flags_of_a_step_are_those_of_its_script(monkeypatch, step):
    arguments = arguments_of(monkeypatch, step)
    names = [argument.removeprefix("--").partition("=")[0] for argument in arguments]
    assert names == list(step.flags)
    types = typing.get_type_hints(OPTIONS[step.script])
    values = {}
    for name, value in step.flags.items():
        value = str(value) if isinstance(value, pathlib.Path) else value
        values[name] = (value,) if typing.get_origin(types[name]) is tuple else value
    options_class = OPTIONS[step.script]
    make = getattr(options_class, "from_flags", options_class)
    make(**values)  # refuses unknown names and values out of range


def walk(out):
    """Runs the quick start as a user does; returns its output before the table, and the rest."""
    command = [sys.executable, "-m", "examples.quickstart.run", f"--output_dir={out}"]
    done = subprocess.run(command, cwd=run.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps, _, result = done.stdout.partition("=== Result\n")
    return steps, result


def accuracy(name, result):
    """Returns an accuracy of the summary and its standard error, in percent."""
    pattern = rf"^slips found, {name} +([\d.]+)% ± ([\d.]+)%$"
    return tuple(map(float, re.search(pattern, result, re.MULTILINE).groups()))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_whole_road(tmp_path):
    steps, result = walk(tmp_path)
    assert steps.count("\n$ python ") == len(STEPS)
    before, after = map(float, re.search(r"([\d.]+) nats before, ([\d.]+) after", result).groups())
    assert after <= before - 2
    ours, error = accuracy("small_en", result)
    for name in ("without pre-training", "TF-IDF and logistic regression"):
        other, of_other = accuracy(name, result)
        assert ours - other > 3 * math.hypot(error, of_other)
    order = re.search(r"^sentence-order accuracy +([\d.]+)%$", result, re.MULTILINE).group(1)
    assert float(order) > 50
    labels = {"right", "slip"}
    predictions = re.findall(r"^  (\S+) [\d.]+%  \(true: (\S+)\)  \S", result, re.MULTILINE)
    assert len(predictions) == 3
    assert {label for pair in predictions for label in pair} <= labels
    assert (tmp_path / "learning_curves.png").read_bytes().startswith(b"\x89PNG")

    steps, again = walk(tmp_path)
    assert steps.count("complete already") == len(STEPS)
    assert again == result
