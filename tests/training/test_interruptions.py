import signal

import pytest
import tensorflow as tf

from albert_tf.errors import Preempted, StoppedError
from albert_tf.training import ended_by_sigterm, explain_lost_worker
from albert_tf.training.interruptions import Preemption


@pytest.mark.parametrize("error", [tf.errors.UnavailableError, tf.errors.AbortedError])
def test_lost_worker_is_one_line_where_there_are_others(error):
    with pytest.raises(StoppedError, match="another worker is gone"), explain_lost_worker(False):
        raise error(None, None, "Socket closed")
    with pytest.raises(error), explain_lost_worker(True):
        raise error(None, None, "Socket closed")


def test_lost_worker_is_a_line_of_bearable_length():
    message = (
        "Collective ops is aborted by: From /job:worker/replica:0/task:1: "
        + "Socket closed; " * 40
        + "\nAdditional GRPC error information from remote target /job:worker: "
        + "{...} " * 300
    )
    with pytest.raises(StoppedError) as caught, explain_lost_worker(False):
        raise tf.errors.UnavailableError(None, None, message)
    assert len(str(caught.value)) < 400
    assert "GRPC" not in str(caught.value)


def test_sigterm_ends_what_has_nothing_to_save():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Preempted), ended_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("is_alone", [True, False])
def test_sigterm_that_came_before_ends_it_unless_others_wait(is_alone):
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
