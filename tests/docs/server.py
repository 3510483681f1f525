"""Starts Python and the commands of albert_tf in forks of one process that has imported TensorFlow.

    python -m tests.docs.server SOCKET

The programs that `write_programs` writes hand their arguments, environment, folder and standard streams
to the server, and end as the fork ends. So a command starts at once, and none sees what another one left.
"""

import importlib
import json
import os
import pathlib
import runpy
import signal
import socket
import sys
import tomllib
import traceback

_PROJECT = pathlib.Path(__file__).parents[2] / "pyproject.toml"
# Command -> its function in `albert_tf.commands`
COMMANDS = {
    name: target.partition(":")[2]
    for name, target in tomllib.loads(_PROJECT.read_text())["project"]["scripts"].items()
}
# Size of every vocabulary
PIECES = 40
# What a flag of the pages gets instead of its value
_SMALL_VALUES = {"vocab_size": PIECES, "num_shards": 2}
# What commands get in addition, of which the last value of a flag counts
_FEW_STEPS = [
    *("--num_train_steps=2", "--warmup_steps=1", "--train_batch_size=4"),
    "--save_checkpoints_steps=2",
]
_SMALL = {
    "albert-create-pretraining-data": ["--dupe_factor=1", "--num_workers=1"],
    "albert-pretrain": [*_FEW_STEPS, "--accumulate_steps=1"],
    "albert-classify": _FEW_STEPS,
    "albert-squad": _FEW_STEPS,
}
_CLIENT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"."], [0, 1, 2])
server.sendall(json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode() + b"\\n")
sys.exit(server.recv(1)[0])
"""


def write_programs(folder: pathlib.Path, address: str) -> None:
    """Writes `python` and the commands of albert_tf as programs that ask the server."""
    for name in ("python", *COMMANDS):
        (folder / name).write_text(_CLIENT.format(python=sys.executable, address=address))
        (folder / name).chmod(0o755)


def _serve(address: str) -> None:
    import tensorflow_text  # noqa: F401  what commands import

    import albert_tf
    from albert_tf import commands  # noqa: F401

    for name in albert_tf.__all__:
        getattr(albert_tf, name)
    for task in ("conversion", "embedding", "loading", "pretraining_data", "pretraining_run"):
        importlib.import_module(f"albert_tf.tasks.{task}")
    importlib.import_module("albert_tf.tasks.fine_tuning.squad_options")
    # A published size would be slow to train.
    from albert_tf.config import PRESETS

    for sizes in PRESETS.values():
        sizes.update(vocab_size=PIECES, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
        sizes.update(intermediate_size=64, embedding_size=32)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children are not waited for
            if os.fork() == 0:
                listener.close()
                os._exit(_answer(connection))
            connection.close()


def _answer(connection: socket.socket) -> int:
    """Runs a program in a fork of its own, and tells the client its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    argv, folder, environment = json.loads(connection.makefile().readline())
    program = os.fork()
    if program == 0:
        connection.close()
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        os._exit(_run(argv))
    _, status = os.waitpid(program, 0)
    connection.sendall(bytes([os.waitstatus_to_exitcode(status) % 256]))
    return 0


def _run(argv: list[str]) -> int:
    """Returns the exit status of a program."""
    name = os.path.basename(argv[0])
    try:
        if name in COMMANDS:
            sys.argv = _make_small(argv)
            getattr(sys.modules["albert_tf.commands"], COMMANDS[name])()
        else:
            _run_python(argv[1:])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
    return 0


def _make_small(argv: list[str]) -> list[str]:
    """Returns the arguments of a command of albert_tf with which it takes seconds."""
    # The number of steps replaces that of epochs.
    name, *arguments = (a for a in argv if not a.startswith("--num_train_epochs"))
    command = os.path.basename(name)
    more = _SMALL.get(command, []) if "--do_train" in argv or "data" in command else []
    for index, argument in enumerate(arguments):
        flag = argument.lstrip("-").partition("=")[0]
        if flag in _SMALL_VALUES:
            arguments[index] = f"--{flag}={_SMALL_VALUES[flag]}"
    return [name, *arguments, *more]


def _run_python(argv: list[str]) -> None:
    option, *rest = argv
    if option == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    elif option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        runpy.run_path(option, run_name="__main__")


if __name__ == "__main__":
    _serve(sys.argv[1])
