"""Two logical CPU devices and no GPU for every test, so that replicas are tested alike on any machine."""

import gc

import pytest

import command_line

# The tests run TensorFlow as the scripts set it up.
with command_line.quiet_start():
    import tensorflow as tf


def pytest_configure():
    tf.config.set_visible_devices([], "GPU")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.fixture(autouse=True, scope="module")
def _free_memory():
    """Frees the graphs of a module's tests, and keeps what stays out of later collections.

    Graphs are cycles of many objects. In a process with those of a thousand tests a collection takes
    seconds, and comes again and again.
    """
    yield
    gc.collect()
    gc.freeze()
