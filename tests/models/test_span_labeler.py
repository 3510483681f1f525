import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint
from albert_tf.models import AlbertEncoder, AlbertSpanLabeler
from tests.helpers import random_inputs, tiny_config
from tests.models.golden_heads import check_gradients, read_golden, write_checkpoint


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


def test_logits_loss_and_gradients_of_the_original(tmp_path):
    golden, settings = read_golden("squad_v1")
    model = AlbertSpanLabeler(AlbertEncoder(AlbertConfig(**settings)))
    load_checkpoint(model, write_checkpoint(tmp_path / "ckpt", golden))
    inputs = {name: golden[f"input/{name}"] for name in ("input_ids", "input_mask", "segment_ids")}
    with tf.GradientTape() as tape:
        outputs = model(inputs)
        loss = 0.0
        for name in ("start", "end"):
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=golden[f"input/{name}_positions"], logits=outputs[f"{name}_logits"]
            )
            loss += tf.reduce_mean(losses) / 2
    for name, output in outputs.items():
        np.testing.assert_allclose(output, golden[f"training/{name}"], rtol=0, atol=2e-5)
    np.testing.assert_allclose(loss, golden["training/total_loss"], rtol=0, atol=5e-6)
    variables = [v for v in model.trainable_variables if "/pooler/" not in v.path]
    gradients = tape.gradient(loss, variables)
    check_gradients(variables, gradients, golden, "training/grad/")
