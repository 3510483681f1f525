"""TensorFlow Hub's Keras layer takes the reusable SavedModels.

The library needs Keras 2, so the tests need an environment of their own: `make test-hub`.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import export_reusable
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from tests.export.samples import TEXTS
from tests.helpers import tiny_config

hub = pytest.importorskip("tensorflow_hub", reason="needs tensorflow_hub: make test-hub")
tf_keras = pytest.importorskip("tf_keras", reason="needs tf_keras: make test-hub")


@pytest.fixture(scope="module")
def model():
    config = tiny_config(vocab_size=50, num_hidden_layers=1, hidden_dropout_prob=0.1)
    return AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)


@pytest.fixture(scope="module")
def paths(tmp_path_factory, model, tokenizer):
    return export_reusable(model, tokenizer, str(tmp_path_factory.mktemp("reusable")))


def classifier_of_pairs(paths):
    """A Keras model from (premise, hypothesis) to a logit, and its encoder layer."""
    preprocessor = hub.load(paths["preprocessor"])
    tokenize = hub.KerasLayer(preprocessor.tokenize)
    pack = hub.KerasLayer(preprocessor.bert_pack_inputs, arguments={"seq_length": 23})
    encoder = hub.KerasLayer(paths["encoder"], trainable=True)
    texts = [tf_keras.Input((), dtype=tf.string) for _ in range(2)]
    outputs = encoder(pack([tokenize(text) for text in texts]))
    return tf_keras.Model(texts, tf_keras.layers.Dense(1)(outputs["pooled_output"])), encoder


def test_keras_model_fine_tunes_the_encoder(paths, model):
    classifier, encoder = classifier_of_pairs(paths)
    assert len(encoder.trainable_weights) == len(model.encoder.trainable_variables)
    before = [weight.numpy() for weight in encoder.trainable_weights]
    classifier.compile(
        tf_keras.optimizers.Adam(0.005), tf_keras.losses.BinaryCrossentropy(from_logits=True)
    )
    texts = [tf.constant(column) for column in zip(*TEXTS, strict=True)]
    labels = np.array([[0], [1], [0], [1], [0], [1]])
    history = classifier.fit(texts, labels, batch_size=6, epochs=30, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    for weight, old in zip(encoder.trainable_weights, before, strict=True):
        # A key's bias adds the same to all scores of a query, so it has no gradient.
        assert np.any(weight.numpy() != old) or "key/bias" in weight.name


def test_layer_gives_the_encoders_outputs(paths, model):
    texts = tf.constant([text for text, _ in TEXTS])
    inputs = hub.KerasLayer(paths["preprocessor"])(texts)
    outputs = hub.KerasLayer(paths["encoder"])(inputs)
    names = {"input_ids": "input_word_ids", "input_mask": "input_mask"}
    expected = model.encoder({ours: inputs[theirs] for ours, theirs in names.items()})
    np.testing.assert_allclose(outputs["default"], expected["pooled_output"], rtol=0, atol=1e-6)


def test_masked_lm_is_trained_further(paths):
    encoder = hub.load(paths["encoder"])
    layer = hub.KerasLayer(encoder.mlm, trainable=True)
    ids = tf.ones((2, 5), tf.int32)
    inputs = {"input_word_ids": ids, "input_mask": ids, "input_type_ids": 0 * ids}
    inputs["masked_lm_positions"] = tf.constant([[1], [3]])
    with tf.GradientTape() as tape:
        logits = layer(inputs, training=True)["mlm_logits"]
        loss = -tf.reduce_mean(tf.nn.log_softmax(logits)[..., 7])
    assert logits.shape == (2, 1, 50)
    assert len(layer.trainable_weights) == len(encoder.trainable_variables) + 5
    gradients = tape.gradient(loss, layer.trainable_weights)
    assert sum(gradient is not None for gradient in gradients) > 20
