"""What `pip install` brings is what the package imports."""

import ast
import pathlib
import re
import tomllib

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
    sources = [ROOT / "command_line.py", *(ROOT / "albert_tf").rglob("*.py")]
    used = {module.partition(".")[0] for path in sources for module in imported_modules(path)}
    assert {IMPORTED_AS.get(name, name) for name in names - IMPORTED_BY_TENSORFLOW} <= used
