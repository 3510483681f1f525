"""Scores of any size are learnt in units of their own, and stored and predicted in the user's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf import AlbertClassifier, load_checkpoint
from albert_tf.conversion import save_model
from albert_tf.data.fine_tuning.examples import Example
from albert_tf.kinds import Regression
from albert_tf.kinds.registry import read_kind
from albert_tf.losses import batch_loss
from tests.helpers import random_inputs, tiny_config


def examples_of(scores):
    return [Example("", "x", label=repr(score)) for score in scores]


@settings(deadline=None)
@given(st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e9]), st.floats(-1e3, 1e3))
def test_what_is_learnt_is_near_zero_and_one(unit, mean):
    examples = examples_of([unit * (mean + number) for number in range(-20, 21)])
    kind = Regression().fit_labels(examples, "train.csv")
    learnt = np.array(
        [[(float(each.label) - kind.offset) / kind.scale] for each in examples], np.float32
    )
    assert abs(learnt.mean()) <= 8
    assert 1 / 8 <= learnt.std() <= 8
    loss = batch_loss(
        kind.loss, {"label_ids": np.float32([float(e.label) for e in examples])}, learnt
    )
    assert loss < 1e-4
    metrics = kind.measure(examples, learnt).metrics
    assert metrics["rmse"] < 1e-3 * abs(unit) * (1 + abs(mean))
    assert metrics["loss"] == pytest.approx(metrics["rmse"] ** 2)


def test_scores_of_sts_b_are_learnt_as_they_are():
    assert Regression().fit_labels(examples_of(np.linspace(0, 5, 40).tolist()), "x") == Regression()


def test_a_stored_model_gives_the_scores_themselves(tmp_path):
    kind = Regression().fit_labels(examples_of([5e4, 2e5, 5e5]), "train.csv")
    models = [
        AlbertClassifier.from_encoder_config(tiny_config(), num_classes=1, seed=seed)
        for seed in (0, 1)
    ]
    save_model(models[0], str(tmp_path / "best"), kind)
    load_checkpoint(models[1], str(tmp_path / "best"))
    stored = read_kind(str(tmp_path / "best"))
    assert stored == kind.stored({})[0] != kind
    outputs = [model(random_inputs()).numpy() for model in models]
    expected = kind.result([], outputs[0]).score
    np.testing.assert_allclose(stored.result([], outputs[1]).score, expected, rtol=1e-5)
    np.testing.assert_allclose(kind.outputs(outputs[0])["score"], expected, rtol=1e-6)
