"""Runs the commands and the Python blocks of a page as they are printed, in the current folder.

    python -m tests.docs.snippets docs/keras.md

An indented block holds commands, a fenced one what its first line says. Python runs in this process, in
which names stay from block to block; commands run in bash, one by one.
"""

import dataclasses
import importlib.util
import pathlib
import re
import subprocess
import sys
import traceback
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "docs/*.md")
    for path in sorted(ROOT.glob(pattern))
]

# Parts of commands that are not run, and why.
_SKIPPED = {
    "pip install": "changes the environment; tests/end_to_end/test_installation.py installs",
    "make ": "a target of the Makefile",
    "docker ": "needs Docker",
    "--tpu=": "needs a TPU",
    "TF_CONFIG=": "needs two machines; tests/end_to_end/test_strategies.py starts workers",
    "--runner=": "needs Apache Beam; `make test-beam` runs the pipeline",
    "python -m benchmarks.": "trains for hours; tests/benchmarks runs them in small",
    "KERAS_BACKEND=": "needs JAX; `make test-backends` runs examples/keras/pretrain.py",
}
# Packages that `make test` does not install, by what needs them
_OPTIONAL = {"onnx": "onnxruntime", "openvino": "openvino"}
_DATA = ("json", "text", "tsv")


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of a page: the number of its first line, its language and its source."""

    line: int
    language: str
    source: str

    @property
    def commands(self) -> list[tuple[int, str]]:
        """Commands with the numbers of their lines; a line that ends in a backslash goes on."""
        joined = re.findall(r"(?:[^\n]*\\\n)*[^\n]+", self.source)
        # In a block with prompts, the other lines are output.
        if any(command.startswith("$ ") for command in joined):
            joined = [command[2:] for command in joined if command.startswith("$ ")]
        return [(self.line + self.source[: self.source.index(c)].count("\n"), c) for c in joined]


class BrokenSnippetError(Exception):
    """A command or a block that does not work."""


def read_blocks(page: str) -> list[Block]:
    """Returns the blocks of a page's text."""
    blocks = []
    lines = iter(enumerate([*page.split("\n"), ""], start=1))
    before = ""
    for number, line in lines:
        if line.startswith("```"):
            source = []
            for _, inner in lines:
                if inner == "```":
                    break
                source.append(inner)
            blocks.append(Block(number + 1, line[3:], "\n".join(source)))
        elif line.startswith("    ") and not before:
            source = [line[4:]]
            for _, inner in lines:
                if not inner.startswith("    "):
                    break
                source.append(inner[4:])
            blocks.append(Block(number, "bash", "\n".join(source)))
            line = ""
        before = line
    return blocks


def run_blocks(name: str, blocks: Iterable[Block]) -> None:
    """Runs the blocks of a page in their order.

    Raises:
        BrokenSnippetError: one of them does not work; the message says where and why.
    """
    namespace = {"__name__": "__main__"}
    for block in blocks:
        where = f"{name}:{block.line}"
        if block.language == "python":
            if reason := _reason_to_skip(block.source):
                print(f"{where}: not run: {reason}", flush=True)
                continue
            print(f"{where}: Python", flush=True)
            try:
                exec(compile(block.source, where, "exec"), namespace)
            except Exception:
                raise BrokenSnippetError(f"{where}: {traceback.format_exc()}") from None
        elif block.language == "bash":
            for line, command in block.commands:
                _run_command(f"{name}:{line}", command)
        elif block.language not in _DATA:
            raise BrokenSnippetError(f"{where}: a block of '{block.language}'; expected {_DATA}")


def _run_command(where: str, command: str) -> None:
    if reason := _reason_to_skip(command):
        print(f"{where}: not run: {reason}", flush=True)
        return
    print(f"{where}: {command}", flush=True)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], text=True, **streams)
    if done.returncode:
        message = f"{where}: exit status {done.returncode}: {command}\n{done.stdout}"
        raise BrokenSnippetError(message)


def _reason_to_skip(source: str) -> str | None:
    for part, reason in _SKIPPED.items():
        if part in source:
            return reason
    for part, package in _OPTIONAL.items():
        if part in source and not importlib.util.find_spec(package):
            return f"needs {package}"
    return None


def main() -> None:
    """Runs the page that the command line names."""
    from tests.docs.files import provide

    path = ROOT / sys.argv[1]
    blocks = read_blocks(path.read_text())
    provide(blocks)
    try:
        run_blocks(path.name, blocks)
    except BrokenSnippetError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
