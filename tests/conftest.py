"""Two logical CPU devices and no GPU for every test, so that replicas are tested alike on any machine."""

import gc
import os
import re
import sys

import pytest

from albert_tf import command_line

# A name that is no folder is looked up on the Hub, which no test but those of a local one may need.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# The command that runs tests with the library that they need, by a pattern in the reason for skipping.
_COMMANDS = {
    "KERAS_BACKEND": "make test-backends",
    "apache.beam": "make test-beam",
    "parity|keras.hub|onnx|openvino|tokenizers|torch|transformers": "make test-parity",
    r"g\+\+": "install g++ and make",
    "could not import|needs": "make .venv/installed-test",
}


def pytest_configure(config):
    # With `-n` this process runs no test; those it starts do.
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    # As the scripts set TensorFlow up.
    with command_line.quiet_start():
        import tensorflow as tf
    tf.config.set_visible_devices([], "GPU")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    # A graph in the making is many objects, none of them garbage.
    gc.set_threshold(200_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keeps tests together that share the models of a session, so that one process makes these."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return re.sub("^tests/(export|kinds|tasks)/.*", r"\1", super()._split_scope(nodeid))

    return Scheduling(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_terminal_summary(terminalreporter):
    """Lists the tests that were skipped for a missing library, and the command that installs it."""
    by_command: dict[str, set[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        _, _, reason = report.longrepr
        for pattern, command in _COMMANDS.items():
            if re.search(pattern, reason):
                by_command.setdefault(command, set()).add(report.nodeid.split("[")[0])
                break
    for command, tests in sorted(by_command.items()):
        terminalreporter.section(f"skipped for a missing library; {command}")
        for test in sorted(tests):
            terminalreporter.line(test)


@pytest.fixture
def eagerly():
    """Runs steps one operation after the other: to make a graph takes as long as twenty small steps."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


_FIGURES = "matplotlib.figure"


@pytest.fixture(autouse=True, scope="session")
def _no_pictures():
    """Spares trainings their pictures, which take a tenth of a small one's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, _FIGURES, None)
        yield


@pytest.fixture(scope="module")
def pictures(_no_pictures):
    """Lets the tests of a module, and the trainings that they share, draw."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, _FIGURES)
        yield


@pytest.fixture(autouse=True, scope="module")
def _plain_graphs(request):
    """Spares small trainings TensorFlow's optimisation of graphs, a sixth of their time.

    Elsewhere, and in the programs that tests start, graphs are optimised as users have it.
    """
    trains = re.match("tests/(kinds|tasks|training)/", request.node.nodeid)
    _set_plain_graphs(bool(trains))
    yield
    _set_plain_graphs(False)


def _set_plain_graphs(are_plain):
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": are_plain})


@pytest.fixture(autouse=True, scope="module")
def _free_memory():
    """Frees the graphs of a module's tests, and keeps what stays out of later collections.

    Graphs are cycles of many objects. In a process with those of a thousand tests a collection takes
    seconds, and comes again and again.
    """
    yield
    gc.collect()
    gc.freeze()
