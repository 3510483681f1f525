"""The scripts as their users run them: processes, exit codes, kills."""

import dataclasses
import pathlib
import pkgutil
import runpy
import signal
import subprocess
import sys
import tomllib

import pytest

from albert_tf import command_line
from albert_tf.tasks.fine_tuning.run import run
from tests.end_to_end.runs import as_arguments, read_reports, wait_for, write_flags
from tests.helpers import ROOT, slow_except
from tests.tasks.animals import make_options, write_data
from tests.tasks.language import write_language

# The command that calls the same function, and a flag of its task.
SCRIPTS = {
    "create_pretraining_data.py": ("albert-create-pretraining-data", "input_file"),
    "run_pretraining.py": ("albert-pretrain", "input_file"),
    "run_classifier.py": ("albert-classify", "task_name"),
    "run_squad.py": ("albert-squad", "max_answer_length"),
    "embed_texts.py": ("albert-embed", "pooling"),
    "convert_checkpoint.py": ("albert-convert", "output_checkpoint"),
}


def start(script, **flags):
    # Where a shell's background job runs the tests, Ctrl-C is ignored, and programs inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, ROOT / script, *as_arguments(flags)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_and_command_run_the_same_task(script, monkeypatch):
    command, flag = SCRIPTS[script]
    calls = []
    monkeypatch.setattr(command_line, "run", lambda *arguments: calls.append(arguments))
    runpy.run_path(str(ROOT / script), run_name="__main__")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pkgutil.resolve_name(project["scripts"][command])()
    # The options with those of all kinds are made by each call.
    (options_class, *others), (of_command, *others_of_command) = calls
    assert others == others_of_command
    assert options_class.__name__ == of_command.__name__
    task, description, main_flags = others
    names = {field.name for field in dataclasses.fields(options_class)}
    assert flag in names
    assert names.issuperset(main_flags)
    assert len(main_flags) <= 10
    assert callable(pkgutil.resolve_name(f"{task}:run"))
    assert "{command} --" in description


@pytest.mark.parametrize(
    ("script", "flag"),
    [
        *((script, "--helpfull") for script in SCRIPTS),
        *(("run_classifier.py", flag) for flag in ("--version", "--unknown")),
    ],
)
def test_help_version_and_mistakes_in_flags_import_nothing_slow(script, flag):
    command = [sys.executable, "-X", "importtime", ROOT / script, flag]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == (2 if flag == "--unknown" else 0)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "albert_tf.commands" in imported
    assert imported.isdisjoint(["keras", "scipy", "sklearn", "tensorflow"])


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGTERM, 0, "stopped by SIGTERM; run the same command again"),
        (signal.SIGINT, 130, "interrupted"),
    ],
)
def test_signal_in_the_imports_is_one_line(number, code, line):
    process = start("run_pretraining.py", output_dir="none")
    wait_for(lambda: "libtensorflow" in read_text(f"/proc/{process.pid}/maps"), process)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert out == ""
    assert error == f"run_pretraining.py: {line}\n"
    assert process.returncode == code


PREEMPTIONS = [
    ("training", signal.SIGTERM, 0, "SIGTERM"),
    ("evaluating", signal.SIGTERM, 0, "SIGTERM"),
    ("training", signal.SIGINT, 130, "Ctrl-C"),
]


@pytest.mark.parametrize(("when", "sent", "code", "by"), slow_except(PREEMPTIONS, PREEMPTIONS[0]))
def test_preempted_run_saves_and_ends_well(tmp_path, when, sent, code, by):
    flags = write_flags(tmp_path) | {"output_dir": tmp_path / "out", "num_train_steps": 200}
    if when == "evaluating":
        write_language(tmp_path / "dev.tfrecord", 20000, seed=2)
        flags |= {"max_eval_steps": 10**6, "eval_batch_size": 1}
    else:
        del flags["eval_input_file"], flags["do_eval"]
    process = start("run_pretraining.py", **flags)
    reached = (
        tmp_path / "out" / {"training": "state/step-20.safetensors", "evaluating": "eval"}[when]
    )
    wait_for(reached.exists, process)
    process.send_signal(sent)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    last = error.splitlines()[-1]
    assert last == f"run_pretraining.py: stopped by {by}; the same command resumes"
    assert "Traceback" not in error
    assert ".cc:" not in error  # TensorFlow's own lines
    if when == "training":
        step = read_reports(tmp_path / "out")[-1]["step"]
        assert (tmp_path / "out" / "state" / f"step-{step}.safetensors").exists()


def read_text(path):
    """Returns a file's content; empty if it has been removed."""
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


@pytest.mark.slow
def test_classifier_answers_a_pipe_until_nobody_reads(tmp_path):
    write_data(tmp_path)
    out = tmp_path / "out"
    run(make_options(tmp_path, out, num_train_steps=1, do_eval=False, dev_file=None))
    process = start("run_classifier.py", output_dir=out, predict_file="-")
    assert process.stdout.readline().startswith("prediction\tprobability_animal")
    answers = []
    for line in ("the old cat", "few moss"):
        print(line, file=process.stdin, flush=True)
        answers.append(process.stdout.readline().rstrip("\n").split("\t"))
    assert [len(answer) for answer in answers] == [3, 3]
    assert {answer[0] for answer in answers} <= {"animal", "plant"}
    process.stdout.close()
    print("an owl", file=process.stdin, flush=True)
    error = process.stderr.read()
    assert process.wait(timeout=60) == 128 + signal.SIGPIPE
    assert "Traceback" not in error
