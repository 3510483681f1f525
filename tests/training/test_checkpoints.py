import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.training import load_checkpoint
from albert_tf.training.checkpoints import Checkpoints, variables_by_path
from tests.helpers import tiny_config


@pytest.fixture
def pretrainer():
    return AlbertPretrainer(AlbertEncoder(tiny_config(sharing="attention"), seed=1), seed=2)


def save(model, directory, step=7):
    return Checkpoints(str(directory), variables_by_path(model.weights), 1).save(step)


def test_encoder_is_read_from_a_pretrainers_checkpoint(tmp_path, pretrainer):
    prefix = save(pretrainer, tmp_path)
    classifier = AlbertClassifier(AlbertEncoder(pretrainer.encoder.config, seed=3), num_classes=2)
    for path in (prefix, str(tmp_path)):
        load_checkpoint(classifier.encoder, path)
        for ours, theirs in zip(
            classifier.encoder.weights, pretrainer.encoder.weights, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_only_the_newest_stay(tmp_path, pretrainer):
    checkpoints = Checkpoints(str(tmp_path), variables_by_path(pretrainer.weights), max_to_keep=2)
    for step in (3, 5, 8):
        checkpoints.save(step)
    assert sorted(path.name for path in tmp_path.glob("*.index")) == [
        "ckpt-5.index",
        "ckpt-8.index",
    ]
    # A later run goes on counting where this one stopped.
    again = Checkpoints(str(tmp_path), variables_by_path(pretrainer.weights), max_to_keep=2)
    again.save(9)
    assert sorted(path.name for path in tmp_path.glob("*.index")) == [
        "ckpt-8.index",
        "ckpt-9.index",
    ]


def test_weight_of_another_shape_is_named_and_nothing_is_read(tmp_path, pretrainer):
    save(pretrainer, tmp_path)
    wider = AlbertEncoder(tiny_config(sharing="attention", intermediate_size=81), seed=3)
    before = wider.get_weights()
    with pytest.raises(InputError, match=r"ffn_0_0/intermediate/kernel' has shape \(48, 80\).*81"):
        load_checkpoint(wider, str(tmp_path))
    for first, second in zip(before, wider.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_missing_weight_is_named(tmp_path, pretrainer):
    save(pretrainer.encoder, tmp_path)
    with pytest.raises(
        InputError, match="'albert_pretrainer/masked_lm_head/output_bias' is not in"
    ):
        load_checkpoint(pretrainer, str(tmp_path))


def test_places_without_checkpoint_are_refused(tmp_path, pretrainer):
    with pytest.raises(InputError, match="the folder holds no checkpoint"):
        load_checkpoint(pretrainer, str(tmp_path))
    with pytest.raises(InputError, match="there is no checkpoint of this name"):
        load_checkpoint(pretrainer, str(tmp_path / "ckpt-3"))


def test_damaged_checkpoint_is_refused(tmp_path, pretrainer):
    prefix = save(pretrainer, tmp_path)
    data = tmp_path / "ckpt-7.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(InputError, match="the checkpoint is damaged"):
        load_checkpoint(pretrainer, prefix)
    (tmp_path / "ckpt-7.index").write_bytes(b"no checkpoint at all" * 10)
    with pytest.raises(InputError, match="the checkpoint is damaged"):
        load_checkpoint(pretrainer, prefix)


def test_checkpoint_of_others_is_refused(tmp_path, pretrainer):
    prefix = tf.train.Checkpoint(step=tf.Variable(1)).write(str(tmp_path / "other"))
    with pytest.raises(InputError, match="not a checkpoint of albert_tf"):
        load_checkpoint(pretrainer, prefix)
