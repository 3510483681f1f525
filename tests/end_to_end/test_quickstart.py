"""The quick start: its commands fit the scripts, finished steps are not repeated, and it completes."""

import importlib
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
    OPTIONS[step.script](**values)  # refuses unknown names and values out of range


def test_the_flags_of_the_corpus_maker_are_its_own(monkeypatch):
    arguments = arguments_of(monkeypatch, STEPS[0])
    monkeypatch.syspath_prepend(run.ROOT / "examples" / "quickstart")
    make_corpus = importlib.import_module("make_corpus")
    calls = []
    monkeypatch.setattr(make_corpus, "make_corpus", lambda *values: calls.append(values))
    monkeypatch.setattr(sys, "argv", ["make_corpus.py", *arguments])
    make_corpus.main()
    ((output_dir, *_),) = calls
    assert output_dir == STEPS[0].flags["output_dir"]


def test_a_step_that_fails_ends_the_road(monkeypatch):
    failed = subprocess.CompletedProcess([], 3)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: failed)
    with pytest.raises(SystemExit, match=r"^quickstart: error: .*make_corpus\.py ended with .* 3$"):
        STEPS[0].run()


def finish_all_steps(out):
    for step in run.make_steps(out):
        step.product.parent.mkdir(parents=True, exist_ok=True)
        step.product.touch()
    (out / "corpus" / "test.csv").write_text("label,text\nslip,A text.\n")


@pytest.mark.parametrize("inside_the_clone", [False, True])
def test_a_second_walk_starts_no_step(tmp_path, monkeypatch, capsys, inside_the_clone):
    """The folder is named from where the user stands; inside the clone its name stays short."""
    finish_all_steps(tmp_path / "mine")
    if inside_the_clone:
        monkeypatch.setattr(run, "ROOT", tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "argv", ["run", "--output_dir=../mine"])
    monkeypatch.setattr(subprocess, "run", lambda command, **_: pytest.fail(f"ran {command}"))
    monkeypatch.setattr(run, "summarize", lambda out: [("folder", str(out))])
    monkeypatch.setattr(run, "predict", lambda model, texts: [f"{model} {texts}"])
    run.main()
    out = capsys.readouterr().out
    folder = "mine" if inside_the_clone else tmp_path / "mine"
    assert out.count("complete already") == len(STEPS)
    assert f"folder  {folder}\n" in out
    assert f"{folder}/exported/text/1 ['A text.']  (true: slip)" in out
    assert (tmp_path / "mine" / "albert_config.json").exists()


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
