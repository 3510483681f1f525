import keras
import numpy as np
import pytest

from albert_tf.models import AlbertEncoder, AlbertPretrainer
from tests.helpers import random_inputs, tiny_config


def make_inputs():
    positions = np.array([[0, 3, 9, 9], [1, 2, 10, 4], [5, 5, 0, 2]], np.int32)
    return {**random_inputs(), "masked_lm_positions": positions}


def test_shapes_of_the_logits():
    outputs = AlbertPretrainer(AlbertEncoder(tiny_config()))(make_inputs())
    assert outputs["masked_lm_logits"].shape == (3, 4, 97)
    assert outputs["sentence_order_logits"].shape == (3, 2)


def test_logits_are_those_of_their_positions():
    model = AlbertPretrainer(AlbertEncoder(tiny_config(), seed=1), seed=2)
    inputs = make_inputs()
    logits = np.asarray(model(inputs)["masked_lm_logits"])
    everywhere = np.tile(np.arange(11, dtype=np.int32), (3, 1))
    all_logits = np.asarray(
        model({**inputs, "masked_lm_positions": everywhere})["masked_lm_logits"]
    )
    rows = np.arange(3)[:, None]
    np.testing.assert_allclose(logits, all_logits[rows, inputs["masked_lm_positions"]], atol=1e-6)


def test_word_table_is_input_and_output():
    model = AlbertPretrainer(AlbertEncoder(tiny_config(), seed=1), seed=2)
    assert sum(weight.shape == (97, 16) for weight in model.weights) == 1
    before = np.asarray(model(make_inputs())["masked_lm_logits"])
    table = model.encoder.embedding.word_embeddings
    unused = next(piece for piece in range(97) if piece not in make_inputs()["input_ids"])
    values = table.numpy()
    values[unused] *= 3.0
    table.assign(values)
    after = np.asarray(model(make_inputs())["masked_lm_logits"])
    changed = np.abs(after - before).max(axis=(0, 1)) > 1e-6
    assert changed[unused]
    assert changed.sum() == 1


def test_without_sentence_head():
    model = AlbertPretrainer(AlbertEncoder(tiny_config()), sentence_head=False)
    assert set(model(make_inputs())) == {"masked_lm_logits"}
    assert not any("sentence_order_head" in weight.path for weight in model.weights)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_keras_file_gives_the_model_back(tmp_path, dtype):
    encoder = AlbertEncoder(tiny_config(), seed=1, dtype=dtype)
    model = AlbertPretrainer(encoder, seed=2, dtype=dtype)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    logits = model(make_inputs())["masked_lm_logits"]
    assert logits.dtype.name == "float32"
    np.testing.assert_array_equal(loaded(make_inputs())["masked_lm_logits"], logits)
