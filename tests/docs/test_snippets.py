"""Every command and every Python block of the README and the guides works as it is printed.

`make test-parity` runs those for OpenVINO and ONNX Runtime, too.
"""

import dataclasses
import itertools
import os
import re
import subprocess
import sys
from unittest import mock

import pytest

from albert_tf import command_line, commands
from tests.docs import server
from tests.docs.snippets import PAGES, ROOT, read_blocks
from tests.helpers import slow_except


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Folder with `python` and the commands, which run in forks of one process."""
    folder = tmp_path_factory.mktemp("bin")
    address = str(folder / "server")
    server.write_programs(folder, address)
    arguments = [sys.executable, "-m", "tests.docs.server", address]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    process = subprocess.Popen(
        arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout.readline() == b"ready\n"
    yield folder
    process.kill()
    process.wait()


@pytest.fixture
def run_page(programs, tmp_path):
    """Runs a page, and returns its exit status and what it printed."""

    def run(page):
        done = subprocess.run(
            [programs / "python", "-m", "tests.docs.snippets", str(ROOT / page)],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                "HF_HOME": str(tmp_path / "hub"),
                "HF_HUB_OFFLINE": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", slow_except(PAGES, "docs/pretraining_data.md"))
def test_snippets_work_as_printed(run_page, page):
    status, output = run_page(page)
    assert status == 0, output


@pytest.mark.parametrize("page", PAGES)
def test_flags_exist(page, monkeypatch):
    """The slow pages, too: without running them."""
    run = mock.Mock()
    monkeypatch.setattr(command_line, "run", run)
    blocks = [block for block in read_blocks((ROOT / page).read_text()) if block.language == "bash"]
    for line, command in itertools.chain.from_iterable(block.commands for block in blocks):
        for name, arguments in re.findall(rf"\b({'|'.join(server.COMMANDS)})\b([^|]*)", command):
            getattr(commands, server.COMMANDS[name])()
            fields = dataclasses.fields(run.call_args.args[0])
            known = {flag for field in fields for flag in (field.name, f"no{field.name}")}
            unknown = set(re.findall(r"(?<=\s)--(\w+)", arguments)) - known
            assert not unknown, f"{page}:{line}: {name}"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```python\nloss = 1\n\nlos + 1\n```", "page.md:2: .*line 3.*NameError: name 'los'"),
        ("Text\n\n    true\n    albert-convert --too=tf1", "page.md:4: exit status 2.*'too'"),
    ],
)
def test_a_broken_snippet_is_found(run_page, tmp_path, page, message):
    (tmp_path / "page.md").write_text(page)
    status, output = run_page(tmp_path / "page.md")
    assert status == 1
    assert re.search(message, output, re.DOTALL), output
