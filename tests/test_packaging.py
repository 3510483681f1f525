"""What `pip install` brings is what the package imports, and nothing is imported before it is needed."""

import ast
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import albert_tf
from albert_tf.data.fine_tuning.tables import TABLE_FORMATS
from albert_tf.options.export_forms import FORMS
from tests.helpers import ROOT

# Imported by another name than they are installed by, or by others than us.
IMPORTED_AS = {
    "absl-py": "absl",
    "huggingface-hub": "huggingface_hub",
    "scikit-learn": "sklearn",
    "tensorflow-text": "tensorflow_text",
}
IMPORTED_BY_TENSORFLOW = {"tensorboard"}
# pip itself, and Dask, which comes with an extra of Apache Beam.
PINNED_ONLY = {"pip", "dask", "distributed"}


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def package_names(*lists):
    return {
        re.match(r"[\w-]+", line).group() for lines in lists for line in lines if line[:1] != "#"
    }


def test_every_dependency_is_used():
    names = package_names(PYPROJECT["project"]["dependencies"])
    sources = (ROOT / "albert_tf").rglob("*.py")
    used = {module.partition(".")[0] for path in sources for module in imported_modules(path)}
    assert {IMPORTED_AS.get(name, name) for name in names - IMPORTED_BY_TENSORFLOW} <= used


def test_exactly_what_the_environments_have_is_pinned():
    project, groups = PYPROJECT["project"], PYPROJECT["dependency-groups"].values()
    groups = [[line for line in group if isinstance(line, str)] for group in groups]
    pins = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    needed = [project["dependencies"], *project["optional-dependencies"].values(), *groups]
    assert package_names(pins) == package_names(*needed) | PINNED_ONLY


def test_all_files_of_shipped_models_are_packed():
    package, patterns = ROOT / "albert_tf", PYPROJECT["tool"]["setuptools"]["package-data"]
    packed = {path for pattern in patterns["albert_tf"] for path in package.glob(pattern)}
    shipped = {*package.glob("pretrained/*/*")} | {*package.glob("pretrained/*/*/*")}
    assert shipped
    assert shipped <= packed


def test_the_package_is_installed_for_programs_in_any_folder(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = "import importlib.util; print(importlib.util.find_spec('albert_tf').origin)"
    command = [sys.executable, "-c", program]
    path = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True).strip()
    assert pathlib.Path(path) == pathlib.Path(albert_tf.__file__)


def test_public_names_are_imported_when_they_are_used():
    assert set(albert_tf.__all__) <= set(dir(albert_tf))
    for name in albert_tf.__all__:
        assert getattr(albert_tf, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'albert_tf' has no attribute 'AlbertModel'"):
        albert_tf.AlbertModel  # noqa: B018


def test_a_command_answers_signals_before_it_imports_tensorflow():
    program = "import albert_tf.commands, sys; print({'tensorflow', 'keras'} & set(sys.modules))"
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, cwd=ROOT, text=True) == "set()\n"


EXTRAS = PYPROJECT["project"]["optional-dependencies"]


def test_every_extra_that_the_code_names_exists():
    sources = [path.read_text("utf-8") for path in (ROOT / "albert_tf").rglob("*.py")]
    named = set(re.findall(r'check_extra\(\s*"(\w+)"', "".join(sources)))
    assert {"beam", "serving", "tfds", "zstd"} <= named
    named |= {one.extra for one in TABLE_FORMATS if one.extra}
    named |= {form for form, facts in FORMS.items() if facts.packages}
    # The learning curve is left out without its extra.
    assert named == EXTRAS.keys() - {"plots"}


def test_the_makefile_installs_every_extra():
    def installed(target):
        command = ["make", "--dry-run", "--always-make", f"PYTHON={sys.executable}", target]
        lines = subprocess.check_output(command, cwd=ROOT, text=True)
        (extras,) = re.findall(r"--editable '\.\[([\w,]+)\]'", lines)
        return set(extras.split(","))

    # Beam's protobuf is too old for the others.
    assert installed(".venv-beam/installed") == {"beam"}
    assert installed(".venv-all/installed") == EXTRAS.keys() - {"beam"}
    assert installed(".venv/installed-test") == EXTRAS.keys() - {"beam", "onnx", "openvino"}
