"""An exported model is a layer of any Keras model."""

import keras
import numpy as np
import tensorflow as tf

from tests.export.samples import VOCAB_SIZE
from tests.helpers import random_inputs


def test_ids_model_is_a_layer_of_a_keras_app(exported, model):
    layer = keras.layers.TFSMLayer(exported["ids"])
    inputs = random_inputs(vocab_size=VOCAB_SIZE)
    tensors = {name: keras.Input((None,), dtype="int32", name=name) for name in inputs}
    ids = tensors["input_ids"]
    outputs = layer(ids, **{name: tensors[name] for name in ("input_mask", "segment_ids")})
    app = keras.Model(tensors, outputs["logits"])
    np.testing.assert_allclose(app(inputs), model(inputs), rtol=0, atol=1e-5)


def test_text_model_is_a_layer_with_the_same_endpoint(exported):
    text_a, text_b = ["a cat", "two"], ["the dog", ""]
    answers = keras.layers.TFSMLayer(exported["text"])(
        tf.constant(text_a), text_b=tf.constant(text_b)
    )
    served = tf.saved_model.load(exported["text"]).signatures["serving_default"]
    expected = served(text_a=tf.constant(text_a), text_b=tf.constant(text_b))
    assert answers.keys() == expected.keys()
    np.testing.assert_array_equal(answers["logits"], expected["logits"])
