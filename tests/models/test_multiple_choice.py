import keras
import numpy as np
import tensorflow as tf

from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertMultipleChoice
from tests.helpers import random_inputs, tiny_config


def choices(batch_size=3, count=4):
    """Returns inputs (B, C, S) = (3, 4, 11)."""
    flat = random_inputs(batch_size * count)
    return {name: ids.reshape(batch_size, count, -1) for name, ids in flat.items()}


def test_each_choice_is_scored_alone():
    encoder = AlbertEncoder(tiny_config(), seed=1)
    model = AlbertMultipleChoice(encoder, seed=2)
    classifier = AlbertClassifier(encoder, num_classes=1)
    classifier.head.set_weights(model.head.get_weights())
    logits = model(choices())
    assert logits.shape == (3, 4)
    expected = np.reshape(classifier(random_inputs(12)), (3, 4))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-6)


def test_head_has_a_dropout_of_its_own():
    model = AlbertMultipleChoice(AlbertEncoder(tiny_config(), seed=1), seed=2)
    assert model.dropout == 0.1
    np.testing.assert_array_equal(model(choices()), model(choices()))
    assert (model(choices(), training=True) != model(choices())).numpy().any()


def test_keras_file_gives_the_model_back(tmp_path):
    model = AlbertMultipleChoice(AlbertEncoder(tiny_config(), seed=1), dropout=0.2, seed=2)
    logits = model(choices())
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(choices()), logits)
    assert loaded.dropout == 0.2


def test_free_shapes_in_a_graph():
    model = AlbertMultipleChoice(AlbertEncoder(tiny_config(), seed=1), seed=2)
    inputs = choices()
    signature = {name: tf.TensorSpec((None, None, None), tf.int32) for name in inputs}
    np.testing.assert_allclose(
        tf.function(model, input_signature=[signature])(inputs), model(inputs), rtol=0, atol=1e-6
    )
