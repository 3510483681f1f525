import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.losses import Mean, PretrainingLoss
from albert_tf.training import resume, train
from tests.training.test_loop import (
    batches_from,
    make_plan,
    make_trainer,
    reports,
    resettable,
    steps_of_checkpoints,
)


class LossOfSomeBatches(PretrainingLoss):
    """Multiplies the loss of a batch by its `label_ids`."""

    def metrics(self, batch, outputs):
        means = super().metrics(batch, outputs)
        total, weight = means["masked_lm_loss"]
        return means | {"masked_lm_loss": Mean(total * batch["factor"][0], weight)}


def batches_with_spikes(spikes, left_out=()):
    """Returns the batches of the numbers that are not left out; some have ten times the loss."""

    def mark(number, batch):
        is_spike = tf.reduce_any(number == tf.constant(spikes, tf.int64))
        rows = tf.shape(batch["input_ids"])[:1]
        return batch | {"factor": tf.fill(rows, tf.where(is_spike, 10.0, 1.0))}

    def is_kept(number, _):
        return tf.reduce_all(number != tf.constant(left_out, tf.int64))

    def from_number(start):
        return batches_from(0).enumerate().filter(is_kept).map(mark).skip(start)

    return from_number


def make_spiky_plan(directory, steps, **changes):
    values = {"save_checkpoints_steps": 4, "log_steps": 4, "spike_threshold": 2.0, **changes}
    return make_plan(directory, steps, keep_checkpoint_max=5, **values)


@pytest.fixture(scope="module")
def fresh():
    return resettable(make_trainer(loss=LossOfSomeBatches()))


def go_on(trainer, plan, batches, evaluate=None):
    resume(trainer, plan.options.output_dir)
    train(trainer, plan, batches, evaluate)


def weights(trainer):
    return [variable.numpy() for variable in trainer.model.weights]


def test_warning_explains_the_spike(tmp_path, capsys, fresh):
    go_on(fresh(), make_spiky_plan(tmp_path, 16), batches_with_spikes([13]))
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert warning.startswith("warning: step 14: the loss is 4")
    assert "times its running median 5." in warning
    assert "gradient norm" in warning
    assert "trust ratios from " in warning
    assert "kernel to " in warning or "embedding" in warning


def test_rollback_leaves_out_the_batches(tmp_path, capsys, fresh):
    plan = make_spiky_plan(tmp_path / "spike", 17, on_spike="rewind")
    go_on(trainer := fresh(), plan, batches_with_spikes([13]))
    received = weights(trainer)
    assert trainer.step == 17
    assert trainer.history.ahead == 2
    assert "rolling back to step 12; continuing with" in capsys.readouterr().err
    assert steps_of_checkpoints(tmp_path / "spike") == [4, 8, 12, 16, 17]
    lines = reports(tmp_path / "spike", "train")
    assert [line["step"] for line in lines] == [4, 8, 12, 16, 17]
    batches = list(batches_with_spikes([])(0).take(19))
    seen = [number for number in range(19) if number not in (12, 13)]
    tokens = sum(int(tf.reduce_sum(batches[number]["input_mask"])) for number in seen)
    assert lines[-1]["tokens_seen"] == tokens

    # The same as without the batches from the checkpoint to the spike.
    go_on(fresh(), make_spiky_plan(tmp_path / "none", 17), batches_with_spikes([], [12, 13]))
    for ours, theirs in zip(received, weights(trainer), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("stop", [8, 12, 16])
def test_resumed_run_decides_the_same(tmp_path, fresh, stop):
    batches = batches_with_spikes([13])
    go_on(fresh(), make_spiky_plan(tmp_path, stop, on_spike="rewind"), batches)
    go_on(trainer := fresh(), make_spiky_plan(tmp_path, 17, on_spike="rewind"), batches)
    assert trainer.step == 17
    assert trainer.history.ahead == 2
    ours = weights(trainer)
    go_on(fresh(), make_spiky_plan(tmp_path / "none", 17), batches_with_spikes([], [12, 13]))
    for one, other in zip(ours, weights(trainer), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_second_spike_without_progress_rolls_back_further(tmp_path, capsys, fresh):
    plan = make_spiky_plan(tmp_path, 13, on_spike="rewind", save_checkpoints_steps=3, log_steps=1)
    go_on(trainer := fresh(), plan, batches_with_spikes([12, 13]))
    # Batch 12 makes the run roll back to step 12, and there batch 13 makes it roll back to 9.
    back = [line for line in capsys.readouterr().err.splitlines() if "rolling back" in line]
    assert [line.split()[4].rstrip(";") for line in back] == ["12", "9"]
    assert trainer.history.ahead == 5
    assert steps_of_checkpoints(tmp_path) == [3, 6, 9, 12, 13]


def test_repeated_evaluation_does_not_replace_the_best(tmp_path, fresh):
    plan = make_spiky_plan(tmp_path, 13, on_spike="rewind", save_checkpoints_steps=3, log_steps=1)
    seen = []

    def evaluate():
        seen.append(trainer.step)
        return {"score": 0.9 if seen == [0, 3, 6, 9, 12] else 0.1}

    trainer = fresh()
    go_on(trainer, plan, batches_with_spikes([12, 13]), evaluate)
    assert seen == [0, 3, 6, 9, 12, 12, 13]
    assert plan.best.metrics == {"step": 12, "score": 0.9}


def test_each_rollback_goes_one_checkpoint_further(tmp_path, capsys, fresh):
    plan = make_spiky_plan(tmp_path, 13, on_spike="rewind", save_checkpoints_steps=3, log_steps=1)
    # The run is back at steps 12, 9 and 6 when it has used all batches up to these.
    go_on(fresh(), plan, batches_with_spikes([12, 13, 16]))
    back = [line for line in capsys.readouterr().err.splitlines() if "rolling back" in line]
    assert [line.split()[4].rstrip(";") for line in back] == ["12", "9", "6"]


def test_run_ends_without_an_older_checkpoint(tmp_path, fresh):
    plan = make_spiky_plan(tmp_path, 20, on_spike="rewind", save_checkpoints_steps=100, log_steps=1)
    with pytest.raises(InputError, match="no older checkpoint is left to roll back to"):
        go_on(fresh(), plan, batches_with_spikes([12, 24]))
