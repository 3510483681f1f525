"""The C++ client of the examples, built."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.helpers import ROOT

_CLIENT = ROOT / "examples/cpp_client"

needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") and shutil.which("make")), reason="needs g++ and make"
)


class Client:
    """The built program, in `folder`."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("main.cc", "Makefile"):
            shutil.copy(_CLIENT / name, folder)
        make = ["make", "-s", "-C", folder, f"PYTHON={sys.executable}"]
        subprocess.run([*make, "client"], check=True, capture_output=True)
        operators = subprocess.run([*make, "operators"], check=True, capture_output=True, text=True)
        self.operators = operators.stdout.split()

    def run(self, model, lines, operators):
        return subprocess.run(
            [self.folder / "client", model, *operators],
            input=b"".join(line + b"\n" for line in lines),
            capture_output=True,
        )

    def answers(self, model, lines):
        result = self.run(model, lines, self.operators)
        assert result.returncode == 0, result.stderr.decode()
        return [json.loads(line) for line in result.stdout.decode().splitlines()]

    def error(self, model, lines, operators=()):
        result = self.run(model, lines, operators)
        assert result.returncode == 1
        assert not result.stdout
        # TensorFlow may log before `main` begins.
        return result.stderr.decode().splitlines()[-1]


def lines_of_ids(inputs):
    """Ids as the client reads them: those of the second segment after a tab, no padding."""
    lines = []
    for ids, mask, segments in zip(*inputs.values(), strict=True):
        columns = [ids[(mask == 1) & (segments == segment)] for segment in (0, 1)]
        lines.append("\t".join(" ".join(map(str, column)) for column in columns).encode())
    return lines
