import keras
import numpy as np
import pytest

from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.optimization import AdamWeightDecay
from tests.helpers import random_inputs, tiny_config


def test_keras_file_gives_the_model_back(tmp_path):
    model = AlbertClassifier(AlbertEncoder(tiny_config(), seed=1), num_classes=3, seed=2)
    logits = model(random_inputs())
    assert logits.shape == (3, 3)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(random_inputs()), logits)


def test_head_has_a_dropout_of_its_own():
    model = AlbertClassifier(AlbertEncoder(tiny_config(), seed=1), num_classes=3, seed=2)
    np.testing.assert_array_equal(model(random_inputs()), model(random_inputs()))
    assert (model(random_inputs(), training=True) != model(random_inputs())).numpy().any()


@pytest.mark.slow
def test_keras_fit_trains_it():
    model = AlbertClassifier(AlbertEncoder(tiny_config(), seed=1), num_classes=2, seed=2)
    inputs = random_inputs(batch_size=16)
    labels = (inputs["input_ids"][:, 0] > 50).astype(np.int32)
    model.compile(
        optimizer=AdamWeightDecay(1e-3, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    losses = model.fit(inputs, labels, epochs=15, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
