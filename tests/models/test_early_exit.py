"""Rows leave a batch at the layer that the paper's rule gives, with the logits of that layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import ArgumentError, InputError
from albert_tf.models import AlbertClassifier, AlbertEarlyExitClassifier, AlbertEncoder
from tests.helpers import random_inputs, tiny_config

LAYERS, CLASSES, ROWS = 5, 3, 16
TOLERANCE = 0.7


def make_model(patience=LAYERS, num_classes=CLASSES, **changes):
    # Wide initial values, so that predictions differ between texts and layers.
    config = tiny_config(initializer_range=0.3, **changes)
    tolerance = TOLERANCE if num_classes == 1 else None
    return AlbertEarlyExitClassifier(
        AlbertEncoder(config, seed=1), num_classes, patience, tolerance, dropout=0.0, seed=2
    )


def exits_by_hand(logits, patience, tolerance=None):
    """The layer and the logits at which each row of (B, L, classes) exits: algorithm of section 3."""
    layers, exits = [], []
    for row, of_layers in enumerate(logits):
        count, layer = 0, 1
        while layer < len(of_layers) and count < patience[row]:
            before, after = of_layers[layer - 1], of_layers[layer]
            if tolerance is None:
                same = before.argmax() == after.argmax()
            else:
                same = abs(before[0] - after[0]) < tolerance
            count = count + 1 if same else 0
            layer += 1
        layers.append(layer)
        exits.append(of_layers[layer - 1])
    return np.array(layers), np.array(exits)


def tokens_of(inputs):
    (positions,) = np.nonzero(inputs["input_mask"].ravel())
    return {**inputs, "token_positions": positions.astype(np.int32)}


@pytest.mark.parametrize("num_classes", [CLASSES, 1])
def test_rows_exit_by_the_papers_rule(num_classes):
    model = make_model(num_classes=num_classes)
    inputs = random_inputs(ROWS)
    logits = np.asarray(model(inputs, training=True))
    assert logits.shape == (ROWS, LAYERS, num_classes)
    exit_early = tf.function(model.exit_early, reduce_retracing=True)
    patiences = [np.full(ROWS, each, np.int32) for each in range(1, 1 + LAYERS)]
    patiences.append(np.arange(ROWS, dtype=np.int32) % LAYERS + 1)
    seen = set()
    for patience in patiences:
        expected_layers, expected = exits_by_hand(logits, patience, model.early_exit_tolerance)
        for given in (inputs, tokens_of(inputs)):
            exits = exit_early({**given, "early_exit_patience": patience})
            np.testing.assert_array_equal(exits["exit_layer"], expected_layers)
            np.testing.assert_allclose(exits["logits"], expected, rtol=0, atol=1e-5)
        seen |= set(expected_layers)
    assert seen >= {2, 3, 4, 5}


@pytest.mark.parametrize(
    "changes", [{"sharing": "none"}, {"num_hidden_groups": 2, "inner_group_num": 2}]
)
def test_layers_that_share_less(changes):
    model = make_model(patience=1, **changes)
    inputs = random_inputs(ROWS)
    expected = exits_by_hand(np.asarray(model(inputs, training=True)), np.ones(ROWS, int))
    exits = model.exit_early(inputs)
    np.testing.assert_array_equal(exits["exit_layer"], expected[0])
    np.testing.assert_allclose(exits["logits"], expected[1], rtol=0, atol=1e-5)


def test_without_an_exit_the_last_classifier_answers():
    model = make_model(patience=LAYERS)
    inputs = random_inputs(ROWS)
    plain = AlbertClassifier(model.encoder, CLASSES)
    plain.head.set_weights(model.head.get_weights())
    exits = model.exit_early(inputs)
    assert set(exits["exit_layer"].numpy()) == {LAYERS}
    np.testing.assert_allclose(exits["logits"], plain(inputs), rtol=0, atol=1e-6)


def test_a_batch_gives_the_results_of_its_rows():
    model = make_model(patience=1)
    inputs = random_inputs(ROWS)
    whole = model.exit_early(inputs)
    assert len(set(whole["exit_layer"].numpy())) > 1
    for row in range(ROWS):
        alone = model.exit_early({name: ids[row : row + 1] for name, ids in inputs.items()})
        assert alone["exit_layer"][0] == whole["exit_layer"][row]
        np.testing.assert_allclose(alone["logits"][0], whole["logits"][row], rtol=0, atol=1e-5)


def test_rows_that_have_exited_are_not_computed():
    model = make_model(patience=1, sharing="none")
    inputs = random_inputs(ROWS)
    before = model.exit_early(inputs)
    for weight in [*model.encoder.blocks[-1].weights, *model.head.weights]:
        weight.assign(np.full(weight.shape, np.nan))
    after = model.exit_early(inputs)
    exited = before["exit_layer"].numpy() < LAYERS
    assert 0 < exited.sum() < ROWS
    np.testing.assert_array_equal(after["logits"][exited], before["logits"][exited])
    assert np.isnan(after["logits"][~exited]).all()


def test_keras_file_gives_the_model_back(tmp_path):
    model = make_model(patience=2, num_classes=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    inputs = random_inputs(ROWS)
    assert (loaded.early_exit_patience, loaded.early_exit_tolerance) == (2, TOLERANCE)
    np.testing.assert_array_equal(loaded(inputs), model(inputs))
    assert loaded.exit_heads[0].name == "exit_head_1"


def test_arguments_that_do_not_suit_the_model():
    encoder = AlbertEncoder(tiny_config())
    for arguments, message in (
        ((3, 0), "early_exit_patience=0: expected 1 to 5, the number of layers"),
        ((3, 6), "early_exit_patience=6: expected 1 to 5"),
        ((3, 2, 0.5), "early_exit_tolerance=0.5: expected a regression; received 3 classes"),
        ((1, 2), "early_exit_tolerance: expected a number for a regression; received none"),
    ):
        with pytest.raises(ArgumentError, match=message):
            AlbertEarlyExitClassifier(encoder, *arguments)
    with pytest.raises(InputError, match=r"early_exit_patience: expected int \(B=16\)"):
        make_model()({**random_inputs(ROWS), "early_exit_patience": np.ones(3, np.int32)})
