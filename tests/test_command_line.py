"""What all scripts and commands share, by a small one; end_to_end/test_scripts.py has the real ones."""

import os
import signal
import subprocess
import sys

import pytest

from albert_tf import __version__

# A command that needs no TensorFlow, so it starts in a moment.
_SMALL = """
import dataclasses, logging, os, sys
from typing import Literal
from albert_tf import command_line
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option

@dataclasses.dataclass(frozen=True)
class Base:
    "What others have, too."
    names: tuple[str, ...] = option("Some names.", ())
    depths: tuple[int, ...] | None = option("Some depths.", None)

@dataclasses.dataclass(frozen=True)
class Options(Base):
    form: Literal["long", "short"] = option("Form of it.", "long")
    count: int | None = option("Number of characters.", None, least=1)
    turns: int = option("Number of turns.", 1)
    quick: bool = option("Hurry.", True)

    def __post_init__(self):
        check_ranges(self)

sys.argv[0] = "script.py"
def task(options):
    if options.turns > 1:
        raise InputError("none.txt: cannot be read")
    logging.getLogger("tensorflow").warning("a damaged file that nobody needs")
    print("x" * options.count if options.quick else os.environ["TF_ENABLE_ONEDNN_OPTS"])

command_line.run(Options, task, "Prints. Usage: {command} --count=1", ["form", "count"])
"""
_MAIN_FLAGS = """Prints. Usage: python script.py --count=1

The flags that most runs need:
  --form=long|short
      Form of it. Default: long.
  --count=INTEGER
      Number of characters.

python script.py --helpfull shows 4 more.
"""
_ALL_FLAGS = """Prints. Usage: python script.py --count=1

Flags of this command:
  --form=long|short
      Form of it. Default: long.
  --count=INTEGER
      Number of characters.
  --turns=INTEGER
      Number of turns. Default: 1.
  --[no]quick
      Hurry. Default: true.

What others have, too:
  --names=TEXT,TEXT,...
      Some names.
  --depths=INTEGER,INTEGER,...
      Some depths.
"""


def run(program, *flags, output=subprocess.PIPE, **environment):
    """Returns exit code, standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-c", program, *flags],
        env=os.environ | environment,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--cout=2"], "Unknown command line flag 'cout'. Did you mean: count ?"),
        (["more"], "unexpected argument 'more'; every option is a --flag=value"),
        (["--names=a,,b"], "--names: received an empty value; omit the flag for none"),
        (["--count=0"], "--count=0: expected at least 1"),
        (["--depths=2,x"], "flag --depths=2,x: invalid literal for int() with base 10: 'x'"),
    ],
)
def test_mistake_in_the_flags_is_one_line_and_exit_code_2(flags, message):
    code, out, error = run(_SMALL, *flags)
    assert (code, out) == (2, "")
    assert error.startswith("script.py: error: ")
    assert message in error
    assert len(error.splitlines()) == 1


def test_mistake_in_a_file_is_one_line_and_exit_code_1():
    assert run(_SMALL, "--turns=2") == (1, "", "script.py: error: none.txt: cannot be read\n")


@pytest.mark.parametrize(
    ("flag", "printed"),
    [
        ("-h", _MAIN_FLAGS),
        ("--help", _MAIN_FLAGS),
        ("--helpfull", _ALL_FLAGS),
        ("--version", f"albert_tf {__version__}\n"),
        ("--count=2", "xx\n"),
    ],
)
def test_help_and_version(flag, printed):
    assert run(_SMALL, flag) == (0, printed, "")


# A processor with AVX2 alone, where TensorFlow has been imported.
_OTHER_MACHINE = """
import builtins, io, sys
open_ = builtins.open
builtins.open = lambda path, *arguments, **options: (
    io.StringIO("flags : fma avx2") if path == "/proc/cpuinfo" else open_(path, *arguments, **options)
)
sys.modules["tensorflow"] = None
"""


@pytest.mark.parametrize("chosen", [None, "0"])
def test_onednn_is_turned_on_unless_the_user_chose(chosen, monkeypatch):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    environment = {"TF_ENABLE_ONEDNN_OPTS": chosen} if chosen else {}
    code, out, error = run(_OTHER_MACHINE + _SMALL, "--noquick", "--count=1", **environment)
    assert (code, out) == (0, f"{chosen or '1'}\n")
    line = "script.py: using oneDNN, which is faster; TF_ENABLE_ONEDNN_OPTS=0 turns it off\n"
    assert error == ("" if chosen else line)


def test_paths_of_flags_may_begin_in_the_home():
    program = _SMALL.replace('"x" * options.count', "*options.paths, options.form")
    program = program.replace(
        "    count", '    paths: tuple[str, ...] = option("x", ())\n    count'
    )
    program = program.replace('Literal["long", "short"]', "str")
    flags = "--paths=~/a,~,hf://a/b~", "--form=~/my c"
    assert run(program, *flags, HOME="/h")[1] == "/h/a ~ hf://a/b~ /h/my c\n"


# More than the buffer holds, and less, which is written at the end.
@pytest.mark.parametrize("flag", ["--count=100000", "--count=1", "--help"])
@pytest.mark.parametrize(
    ("is_full", "code", "line"),
    [
        (True, 1, "script.py: error: standard output: cannot be written: No space left on devi"),
        (False, 128 + signal.SIGPIPE, ""),
    ],
)
def test_output_that_nobody_takes_is_no_traceback(flag, is_full, code, line):
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full" if is_full else writer, "w") as output:
        received, _, error = run(_SMALL, flag, output=output)
    assert received == code
    assert error.startswith(line)
    assert error.count("\n") == bool(line)


_LABELS = _SMALL.replace('"x" * options.count', r'"pr\u00eat \u0113 \U0001f600 \udce9"')


@pytest.mark.parametrize(
    ("environment", "printed"),
    [
        ({}, "prêt ē 😀 \\udce9\n".encode()),
        ({"PYTHONIOENCODING": "ascii"}, "prêt ē 😀 \\udce9\n".encode()),
        (
            {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
            "prêt ē 😀 \\udce9\n".encode(),
        ),
        ({"PYTHONIOENCODING": "latin-1"}, b"pr\xeat \\u0113 \\ud83d\\ude00 \\udce9\n"),
        ({"PYTHONIOENCODING": "cp1252"}, b"pr\xeat \\u0113 \\ud83d\\ude00 \\udce9\n"),
    ],
)
def test_any_text_is_shown_by_any_encoding(environment, printed):
    environment = {"PYTHONIOENCODING": "utf-8", **environment}
    if "LC_ALL" in environment:
        del environment["PYTHONIOENCODING"]
    done = subprocess.run(
        [sys.executable, "-c", _LABELS, "--count=1"],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=240,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, b"")


def test_closed_standard_error_is_no_traceback():
    program = _SMALL.replace('"x" * options.count', "sys.stderr.name")
    script = f'exec {sys.executable} -c "$PROGRAM" --count=1 2>&-'
    done = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | {"PROGRAM": program},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"{os.devnull}\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signal_while_a_command_is_imported_is_one_line(number, code):
    program = f"""
import os, sys
sys.argv[0] = "script.py"

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "absl":
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Finder())
from albert_tf import commands
"""
    received, out, error = run(program)
    assert (received, out, error.count("\n")) == (code, "", 1)
    assert error.startswith("script.py: ")
