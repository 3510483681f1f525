"""The wheel in an empty environment: its content, its commands, its types."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile

import pytest

from examples.quickstart.run import MODEL, make_steps
from tests.end_to_end.test_scripts import SCRIPTS
from tests.helpers import ROOT
from tests.tasks.animals import write_rows
from tests.tokenization.conftest import make_sentences

# The quick start's flags with other values: each step takes seconds.
SMALL = {
    **{"vocab_size": 200, "dupe_factor": 1, "num_train_steps": 4, "warmup_steps": 1},
    **{"max_eval_steps": 2, "num_train_epochs": 1},
}
# No program of the environment knows other folders of packages.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
# In addition to the imports of TensorFlow and Keras.
IMPORTED = {"albert_tf", "safetensors", "sentencepiece", "sklearn", "tqdm"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    # A copy, as setuptools would put files of an earlier build in the checkout into the wheel.
    folder = tmp_path_factory.mktemp("source")
    cache = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "albert_tf", folder / "albert_tf", ignore=cache)
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    pip(sys.executable, "wheel", "--no-deps", f"--wheel-dir={folder}", folder)
    (path,) = folder.glob("*.whl")
    return path


def pip(python, *arguments):
    command = [python, "-m", "pip", "--quiet", *map(str, arguments)]
    subprocess.run(command, env=ENVIRONMENT, check=True)


def run(environment, command, *arguments, cwd=None, code=0):
    """Runs a program of the environment; returns its exit code and its output."""
    done = subprocess.run(
        [environment / "bin" / command, *map(str, arguments)],
        cwd=cwd or environment,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def test_wheel_holds_the_package_alone(wheel):
    files = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "albert_tf"
    paths = [*package.rglob("*.py"), *package.glob("pretrained/*/*"), package / "py.typed"]
    assert files == {str(path.relative_to(ROOT)) for path in paths}


def test_installed_package(wheel, tmp_path):
    """One test of all, as parallel ones would install an environment each."""
    # Two gigabytes, which pytest would keep for three runs.
    with tempfile.TemporaryDirectory() as folder:
        environment = pathlib.Path(folder)
        venv.create(environment, with_pip=True)
        # In the tested versions. To compile the few modules that are imported takes less time than all.
        constraints = f"--constraint={ROOT / 'requirements.txt'}"
        pip(environment / "bin" / "python", "install", "--no-compile", constraints, wheel)
        check_quick_start(environment, tmp_path)
        check_command_names(environment)
        check_imports(environment)
        check_types(environment, tmp_path)


def check_quick_start(environment, out):
    """Runs the steps of the quick start through the commands, with little text."""
    corpus = out / "corpus"
    corpus.mkdir()
    sentences = make_sentences()
    documents = ["\n".join(sentences[at : at + 8]) for at in range(0, len(sentences), 8)]
    for name in ("corpus.txt", "corpus_dev.txt"):
        (corpus / name).write_text("\n\n".join(documents) + "\n")
    for seed, split in enumerate(("train", "dev", "test")):
        path = corpus / f"{split}.csv"
        write_rows(path, 40, seed)
        path.write_text(path.read_text().replace("\t", ","))
    config = MODEL | {"vocab_size": SMALL["vocab_size"]}
    (out / "albert_config.json").write_text(json.dumps(config))
    (out / "records").mkdir()

    for step in make_steps(out)[1:]:  # the first step makes the corpus
        values = step.flags | {name: SMALL[name] for name in step.flags.keys() & SMALL.keys()}
        command, _ = SCRIPTS[step.script]
        run(environment, command, *(f"--{name}={value}" for name, value in values.items()))
        assert step.product.exists()

    answer = "albert_tf.load('exported/text/1').predict(['the cat']).label"
    program = f"import albert_tf; print(*{answer})"
    printed = run(environment, "python", "-c", program, cwd=out).stdout
    assert printed.split()[-1] in {"animal", "plant"}


def check_command_names(environment):
    for command in ("albert-squad", "albert-convert"):  # the quick start runs the others
        assert f"\n    {command} --" in run(environment, command, "--help").stdout
    command = "albert-create-pretraining-data"
    error = run(environment, command, "--no_such_flag=1", code=2).stderr.splitlines()[-1]
    assert error.startswith(f"{command}: error: Unknown command line flag 'no_such_flag'")


def check_imports(environment):
    """The public names import little in addition to TensorFlow and Keras."""
    program = """
import sys, tensorflow, keras
before = {name.partition(".")[0] for name in sys.modules}
import albert_tf
for name in albert_tf.__all__:
    getattr(albert_tf, name)
print(*{name.partition(".")[0] for name in sys.modules} - before - sys.stdlib_module_names)
"""
    assert set(run(environment, "python", "-c", program).stdout.split()) <= IMPORTED


def check_types(environment, folder):
    """`mypy --strict` is satisfied with a project that uses the public names."""
    shutil.copy(ROOT / "tests" / "end_to_end" / "typed_project.py", folder)
    command = [sys.executable, "-m", "mypy", "--strict", "typed_project.py"]
    command.append(f"--python-executable={environment / 'bin' / 'python'}")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
