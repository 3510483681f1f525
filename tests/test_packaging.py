"""What `pip install` brings is what the package imports, and nothing is imported before it is needed."""

import ast
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import albert_tf

ROOT = pathlib.Path(__file__).parents[1]
# Imported by another name than they are installed by, or by others than us.
IMPORTED_AS = {"absl-py": "absl", "scikit-learn": "sklearn", "tensorflow-text": "tensorflow_text"}
IMPORTED_BY_TENSORFLOW = {"tensorboard"}


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_every_dependency_is_used():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.match(r"[\w-]+", dependency).group() for dependency in project["dependencies"]}
    sources = (ROOT / "albert_tf").rglob("*.py")
    used = {module.partition(".")[0] for path in sources for module in imported_modules(path)}
    assert {IMPORTED_AS.get(name, name) for name in names - IMPORTED_BY_TENSORFLOW} <= used


def test_public_names_are_imported_when_they_are_used():
    assert set(albert_tf.__all__) <= set(dir(albert_tf))
    for name in albert_tf.__all__:
        assert getattr(albert_tf, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'albert_tf' has no attribute 'AlbertModel'"):
        albert_tf.AlbertModel  # noqa: B018


def test_a_command_answers_signals_before_it_imports_tensorflow():
    program = (
        "import albert_tf.commands; import sys; print({'tensorflow', 'keras'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout == "set()\n"
