import threading

import numpy as np
import pytest

from albert_tf import files
from albert_tf.checkpoints.tensors import variables_by_path
from albert_tf.errors import StoppedError
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.training.states import States
from tests.helpers import assert_same_weights, largest_file, refused, tiny_config


@pytest.fixture
def pretrainer():
    return AlbertPretrainer(AlbertEncoder(tiny_config(sharing="attention"), seed=1), seed=2)


def states_of(model, directory, max_to_keep=1):
    return States(str(directory), variables_by_path(model.weights), max_to_keep)


def save(states, *steps):
    for step in steps:
        states.start_saving(step)
    states.wait()


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def test_only_the_newest_states_are_kept(tmp_path, pretrainer):
    save(states_of(pretrainer, tmp_path, max_to_keep=2), 3, 8, 10)
    assert names_in(tmp_path) == ["step-10.safetensors", "step-8.safetensors"]
    # A later run goes on counting where this one stopped.
    save(states_of(pretrainer, tmp_path, max_to_keep=2), 19)
    assert names_in(tmp_path) == ["step-10.safetensors", "step-19.safetensors"]


def test_restores_all_or_nothing(tmp_path, pretrainer):
    assert not states_of(pretrainer, tmp_path).restore_latest()
    save(states_of(pretrainer, tmp_path), 7)
    other = AlbertPretrainer(AlbertEncoder(pretrainer.encoder.config, seed=3), seed=4)
    assert states_of(other, tmp_path).restore_latest()
    assert_same_weights(other, pretrainer)
    wider = AlbertEncoder(tiny_config(sharing="attention", intermediate_size=81), seed=3)
    before = wider.get_weights()
    with refused("intermediate/kernel' has shape"):
        states_of(wider, tmp_path).restore_latest()
    for first, second in zip(before, wider.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("place", [0, 5, 200, 0.5, 1.0])
def test_damaged_state_is_skipped_with_a_warning(tmp_path, pretrainer, capsys, place):
    states = states_of(pretrainer, tmp_path, max_to_keep=2)
    bias = pretrainer.masked_lm_head.output_bias
    for step in (1, 2):
        bias.assign(np.full(bias.shape, step, np.float32))
        save(states, step)
    path = tmp_path / "step-2.safetensors"
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1)) if place in (0.5, 1.0) else place] ^= 1
    path.write_bytes(content)
    assert states.restore_latest()
    np.testing.assert_array_equal(bias, 1.0)
    assert capsys.readouterr().err.startswith(f"warning: {path}: the file is damaged: ")

    (tmp_path / "step-1.safetensors").write_bytes(b"")
    with refused(r"step-1\.safetensors: the file is damaged"):
        states.restore_latest()


@pytest.mark.parametrize("limit", [10_000, 80_000])
def test_full_disk_keeps_the_previous_state(tmp_path, pretrainer, limit):
    save(states_of(pretrainer, tmp_path), 7)
    message = rf"^{tmp_path}/step-8\.safetensors: cannot be written: "
    with largest_file(limit), pytest.raises(StoppedError, match=message):
        save(states_of(pretrainer, tmp_path), 8)
    assert names_in(tmp_path) == ["step-7.safetensors"]
    assert states_of(pretrainer, tmp_path).restore_latest()


def test_changes_during_the_write_are_not_saved(tmp_path, pretrainer, monkeypatch):
    may_write = threading.Event()
    write = files.write_atomically

    def write_late(path):
        may_write.wait()
        return write(path)

    monkeypatch.setattr(files, "write_atomically", write_late)
    states = states_of(pretrainer, tmp_path)
    before = [weight.numpy().copy() for weight in pretrainer.weights]
    states.start_saving(3)
    for weight in pretrainer.weights:
        weight.assign(weight + 1.0)
    assert names_in(tmp_path) == []
    may_write.set()
    states.wait()
    assert states.restore_latest()
    for weight, value in zip(pretrainer.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_file_of_a_step_does_not_depend_on_what_was_saved_before(tmp_path, pretrainer):
    for name, steps in (("whole", (3, 5, 8)), ("parts", (8,))):
        (tmp_path / name).mkdir()
        save(states_of(pretrainer, tmp_path / name), *steps)
    whole, parts = (tmp_path / name / "step-8.safetensors" for name in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()
    assert names_in(tmp_path / "whole") == ["step-8.safetensors"]
