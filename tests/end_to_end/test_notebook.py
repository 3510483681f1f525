"""The notebook, with its commands: a shipped model is trained and served; raw text becomes a model."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "notebook" / "raw_text_to_answer.ipynb"


@pytest.mark.slow
def test_notebook_runs_and_its_model_answers(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    commands = tmp_path / "bin"
    commands.mkdir()
    functions = {
        "albert-create-pretraining-data": "create_pretraining_data",
        "albert-pretrain": "pretrain",
    }
    for name, function in functions.items():
        script = f"#!{sys.executable}\nfrom albert_tf import commands\ncommands.{function}()\n"
        (commands / name).write_text(script)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()  # raises if a cell fails
    (asked,) = (cell for cell in notebook.cells if "classify(text_a=" in cell.source)
    assert asked.outputs[-1]["data"]["text/plain"] == "[b'food', b'sport']"
