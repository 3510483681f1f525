import signal

import keras
import pytest
import tensorflow as tf

from albert_tf.errors import Preempted, StoppedError
from albert_tf.training import explain_full_memory, explain_lost_worker
from albert_tf.training.loop import Preemption


def message_of_graph():
    @tf.function
    def fail():
        tf.debugging.Assert(False, ["task:1 is down"])

    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        fail()
    assert "defined at" in error.value.message
    return error.value.message


ABORTED = "Collective ops is aborted by: task:1 sent no heartbeats"
LONG = f"{ABORTED}; {'Socket closed; ' * 40}\nAdditional GRPC error information: {'{...} ' * 300}"


@pytest.mark.parametrize(
    ("error_class", "message", "reason"),
    [
        (tf.errors.UnavailableError, "Socket closed", "Socket closed"),
        (tf.errors.AbortedError, "Socket closed", "Socket closed"),
        (tf.errors.InternalError, f"{{{{function_node __wrapped__a:CPU:0}}}} {ABORTED}", ABORTED),
        (tf.errors.UnavailableError, message_of_graph, r"assertion failed: \[task:1 is down\]"),
        (tf.errors.UnavailableError, LONG, r"[^\n]{,300}"),
    ],
)
def test_lost_worker_is_one_line_where_there_are_others(error_class, message, reason):
    error = error_class(None, None, message() if callable(message) else message)
    expected = rf"^another worker was lost \({reason}\); restart all workers"
    with pytest.raises(StoppedError, match=expected), explain_lost_worker(False):
        raise error
    with pytest.raises(error_class), explain_lost_worker(True):
        raise error


def test_another_error_is_no_lost_worker():
    with pytest.raises(tf.errors.InternalError), explain_lost_worker(False):
        raise tf.errors.InternalError(None, None, "another mistake")


def test_full_memory_is_one_line():
    message = r"^out of memory \(OOM when allocating tensor\); a smaller --train_batch_size, --eval"
    with pytest.raises(StoppedError, match=message), explain_full_memory():
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


class Terminated(keras.layers.Layer):
    def call(self, inputs):
        signal.raise_signal(signal.SIGTERM)
        return inputs


def test_sigterm_in_a_layer_is_not_taken_for_an_error_of_the_layer():
    with (
        pytest.raises(Preempted, match=r"^stopped by SIGTERM; the same command resumes$"),
        Preemption(is_alone=True) as preemption,
        preemption.nothing_to_save(),
    ):
        tf.function(Terminated())(tf.ones(1))


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["usual", "ignored"])
def ctrl_c(request):
    """How Ctrl-C is handled before; shells have their background jobs ignore it."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_noted_unless_it_is_ignored(ctrl_c, capfd):
    with Preemption(is_alone=True) as preemption:
        signal.raise_signal(signal.SIGINT)
        error = capfd.readouterr().err
        if ctrl_c == signal.SIG_IGN:
            assert not preemption.requested
            assert error == ""
        else:
            assert preemption.requested
            assert error == "\nCtrl-C: saving after this step; Ctrl-C again quits immediately\n"
            assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
            with pytest.raises(Preempted, match=r"^stopped by Ctrl-C; the same command") as end:
                preemption.end()
            assert end.value.exit_code == 130
    assert signal.getsignal(signal.SIGINT) == ctrl_c


@pytest.mark.parametrize("is_alone", [True, False])
def test_earlier_sigterm_ends_the_block_unless_others_wait(is_alone):
    reached = []

    def enter(preemption):
        with preemption.nothing_to_save():
            reached.append("within")

    with Preemption(is_alone) as preemption:
        signal.raise_signal(signal.SIGTERM)
        assert preemption.requested
        if is_alone:
            with pytest.raises(Preempted):
                enter(preemption)
        else:
            enter(preemption)
    assert reached == ([] if is_alone else ["within"])
