import threading

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.tensor_files import find_checkpoint, latest_checkpoint, variables_by_path
from albert_tf.errors import InputError, StoppedError
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.training.checkpoint_manager import Checkpoints
from tests.helpers import assert_same_weights, largest_file, tiny_config


@pytest.fixture
def pretrainer():
    return AlbertPretrainer(AlbertEncoder(tiny_config(sharing="attention"), seed=1), seed=2)


def checkpoints_of(model, directory, max_to_keep=1, **options):
    variables = variables_by_path(model.weights)
    return Checkpoints(str(directory), variables, max_to_keep, **options)


def names_in(directory):
    return sorted(path.stem for path in directory.glob("*.index"))


def test_only_the_newest_checkpoints_are_kept(tmp_path, pretrainer):
    checkpoints = checkpoints_of(pretrainer, tmp_path, max_to_keep=2)
    for step in (3, 5, 8):
        checkpoints.save(step)
    assert names_in(tmp_path) == ["ckpt-5", "ckpt-8"]
    # A later run goes on counting where this one stopped.
    checkpoints_of(pretrainer, tmp_path, max_to_keep=2).save(9)
    assert names_in(tmp_path) == ["ckpt-8", "ckpt-9"]


def test_restores_all_or_nothing(tmp_path, pretrainer):
    assert not checkpoints_of(pretrainer, tmp_path).restore_latest()
    checkpoints_of(pretrainer, tmp_path).save(7)
    other = AlbertPretrainer(AlbertEncoder(pretrainer.encoder.config, seed=3), seed=4)
    assert checkpoints_of(other, tmp_path).restore_latest()
    assert_same_weights(other, pretrainer)
    wider = AlbertEncoder(tiny_config(sharing="attention", intermediate_size=81), seed=3)
    before = wider.get_weights()
    with pytest.raises(InputError, match="intermediate/kernel' has shape"):
        checkpoints_of(wider, tmp_path).restore_latest()
    for first, second in zip(before, wider.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_damaged_checkpoint_is_skipped_with_a_warning(tmp_path, pretrainer, capsys):
    checkpoints = checkpoints_of(pretrainer, tmp_path, max_to_keep=2)
    bias = pretrainer.masked_lm_head.output_bias
    for step in (1, 2):
        bias.assign(np.full(bias.shape, step, np.float32))
        checkpoints.save(step)
    data = tmp_path / "ckpt-2.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    again = checkpoints_of(pretrainer, tmp_path, max_to_keep=2)
    assert again.restore_latest()
    np.testing.assert_array_equal(bias, 1.0)
    assert capsys.readouterr().err.startswith(f"warning: {tmp_path}/ckpt-2: ")

    for path in tmp_path.glob("ckpt-1.data*"):
        path.write_bytes(b"")
    with pytest.raises(InputError, match="ckpt-1: the checkpoint is damaged"):
        again.restore_latest()


@pytest.mark.parametrize("limit", [10_000, 80_000])
def test_full_disk_keeps_the_previous_checkpoint(tmp_path, pretrainer, limit):
    checkpoints_of(pretrainer, tmp_path).save(7)
    message = f"^{tmp_path}/ckpt-8: cannot be written: "
    with largest_file(limit), pytest.raises(StoppedError, match=message):
        checkpoints_of(pretrainer, tmp_path).save(8)
    assert latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-7")
    assert checkpoints_of(pretrainer, tmp_path).restore_latest()


def test_changes_during_the_write_are_not_saved(tmp_path, pretrainer, monkeypatch):
    may_write = threading.Event()
    save = tf.train.CheckpointManager.save

    def save_late(*arguments, **options):
        may_write.wait()
        return save(*arguments, **options)

    monkeypatch.setattr(tf.train.CheckpointManager, "save", save_late)
    checkpoints = checkpoints_of(pretrainer, tmp_path)
    before = [weight.numpy().copy() for weight in pretrainer.weights]
    checkpoints.start_saving(3)
    for weight in pretrainer.weights:
        weight.assign(weight + 1.0)
    assert latest_checkpoint(str(tmp_path)) is None
    may_write.set()
    checkpoints.wait()
    assert latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-3")
    assert checkpoints.restore_latest()
    for weight, value in zip(pretrainer.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


# A check finds it, too: test_loop.py.
def test_failed_write_is_an_error_of_the_next_one(tmp_path, pretrainer):
    (tmp_path / "file").write_text("")
    checkpoints = checkpoints_of(pretrainer, tmp_path / "file" / "run")
    checkpoints.start_saving(3)
    with pytest.raises(StoppedError, match=r"run/ckpt-3: cannot be written: "):
        checkpoints.start_saving(4)


@pytest.mark.parametrize("note", ["", "no note", None], ids=["empty", "damaged", "missing"])
def test_checkpoints_are_found_without_the_checkpoint_file(tmp_path, pretrainer, capsys, note):
    bias = pretrainer.masked_lm_head.output_bias
    checkpoints = checkpoints_of(pretrainer, tmp_path, max_to_keep=2)
    for step in (8, 13):
        bias.assign(np.full(bias.shape, step, np.float32))
        checkpoints.save(step)
    (tmp_path / "checkpoint").unlink()
    if note is not None:
        (tmp_path / "checkpoint").write_text(note)
    bias.assign(np.zeros(bias.shape, np.float32))
    again = checkpoints_of(pretrainer, tmp_path, max_to_keep=2)
    assert again.restore_latest()
    np.testing.assert_array_equal(bias, 13.0)
    warning = f"warning: {tmp_path}/checkpoint: missing or damaged; using the newest of the 2 "
    assert warning in capsys.readouterr().err
    assert find_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-13")

    # From the next one on, all is as it was.
    again.save(21)
    assert names_in(tmp_path) == ["ckpt-13", "ckpt-21"]
    assert again.restore_latest()
    assert "warning" not in capsys.readouterr().err


def test_files_of_a_step_do_not_depend_on_what_was_saved_before(tmp_path, pretrainer):
    whole = checkpoints_of(pretrainer, tmp_path / "whole")
    for step in (3, 5, 8):
        whole.save(step)
    checkpoints_of(pretrainer, tmp_path / "parts").save(8)
    for name in ("ckpt-8.index", "ckpt-8.data-00000-of-00001"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
