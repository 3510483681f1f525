import keras
import numpy as np
import tensorflow as tf

from albert_tf.models import AlbertEncoder, AlbertSpanLabeler
from tests.helpers import random_inputs, tiny_config


def test_every_position_has_two_logits():
    model = AlbertSpanLabeler(AlbertEncoder(tiny_config(), with_pooler=False, seed=1), seed=2)
    inputs = random_inputs()
    outputs = model(inputs)
    kernel, bias = model.span_head.get_weights()
    expected = model.encoder(inputs)["sequence_output"] @ kernel + bias
    for number, name in enumerate(("start_logits", "end_logits")):
        assert outputs[name].shape == (3, 11)
        np.testing.assert_allclose(outputs[name], expected[..., number], rtol=0, atol=1e-6)


def test_keras_file_gives_the_model_back(tmp_path):
    model = AlbertSpanLabeler(AlbertEncoder(tiny_config(), with_pooler=False, seed=1), seed=2)
    outputs = model(random_inputs())
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.encoder.pooler is None
    for name, output in loaded(random_inputs()).items():
        np.testing.assert_array_equal(output, outputs[name])


def test_logits_are_float32_under_mixed_precision():
    encoder = AlbertEncoder(tiny_config(), dtype="mixed_bfloat16")
    outputs = AlbertSpanLabeler(encoder, dtype="mixed_bfloat16")(random_inputs())
    assert {output.dtype for output in outputs.values()} == {tf.float32}
