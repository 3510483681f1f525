"""Classifiers with early exit start from any checkpoint; only our own format holds all of their heads."""

import numpy as np
import pytest

from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.conversion import load_model, save_hugging_face, save_tf1_checkpoint
from albert_tf.errors import InputError
from albert_tf.models import AlbertClassifier, AlbertEarlyExitClassifier, AlbertEncoder
from albert_tf.training.checkpoint_manager import save_checkpoint
from tests.helpers import tiny_config

LAYERS = 3
CONFIG = tiny_config(num_hidden_layers=LAYERS)
HEADS = [
    f"albert_classifier/exit_head_{layer}/dense/{name}"
    for layer in range(1, LAYERS)
    for name in ("kernel", "bias")
]
SAVE = {
    "albert_tf": save_checkpoint,
    "hugging_face": save_hugging_face,
    "tf1": save_tf1_checkpoint,
}


def make_model(seed, num_classes=2):
    tolerance = 0.5 if num_classes == 1 else None
    return AlbertEarlyExitClassifier(
        AlbertEncoder(CONFIG, seed=seed), num_classes, 2, tolerance, seed=seed
    )


@pytest.mark.parametrize("form", SAVE)
def test_heads_that_a_checkpoint_lacks_stay_random(tmp_path, form):
    plain = AlbertClassifier(AlbertEncoder(CONFIG, seed=1), 2, seed=2)
    path = str(tmp_path / "there")
    SAVE[form](plain, path)
    model = make_model(seed=3)
    before = [head.get_weights() for head in model.exit_heads]
    report = load_checkpoint(model, path)
    assert sorted(report.missing) == sorted(HEADS)
    np.testing.assert_array_equal(model.head.dense.kernel, plain.head.dense.kernel)
    for head, weights in zip(model.exit_heads, before, strict=True):
        np.testing.assert_array_equal(head.dense.kernel, weights[0])


@pytest.mark.parametrize("num_classes", [1, 2])
def test_our_checkpoints_hold_all_heads(tmp_path, num_classes):
    model = make_model(1, num_classes)
    save_checkpoint(model, str(tmp_path / "ckpt"))
    made, report = load_model(CONFIG, str(tmp_path / "ckpt"))
    assert isinstance(made, AlbertEarlyExitClassifier)
    assert not report.missing
    assert not report.unexpected
    # The patience is no weight; with this one no row exits before the last layer.
    assert made.early_exit_patience == LAYERS
    for ours, theirs in zip(made.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("save", [save_hugging_face, save_tf1_checkpoint])
def test_formats_without_such_heads_refuse_the_model(tmp_path, save):
    message = r"^AlbertEarlyExitClassifier: .* has no model with such (a head|heads)$"
    with pytest.raises(InputError, match=message):
        save(make_model(1), str(tmp_path / "there"))
    assert not list(tmp_path.iterdir())
