"""The encoder and the pre-training heads against arrays that the original implementation computed."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_checkpoint
from albert_tf.conversion.tf1 import stored_as_original
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from tests.helpers import shared_path, total_loss

ENCODERS = [
    "g1_gelu",
    "g1_inner2_gelu",
    "g2_gelu",
    "g2_inner2_relu",
    "g5_relu",
    "e_eq_h_g1_relu",
    "e_eq_h_g2_gelu",
    "drop_in_config_g1_gelu",
]


@pytest.mark.parametrize("name", ENCODERS)
def test_encoder_gives_every_layers_output(name):
    folder = shared_path(f"golden/encoder/{name}")
    encoder = AlbertEncoder(AlbertConfig.from_json_file(str(folder / "albert_config.json")))
    load_checkpoint(encoder, str(folder / "ckpt_plain"))
    golden = np.load(folder / "io.npz")
    inputs = {key: golden[key] for key in ("input_ids", "input_mask", "segment_ids")}

    outputs = encoder(inputs)
    hole = encoder({**inputs, "input_mask": golden["hole_input_mask"]})
    ids_alone = encoder({"input_ids": golden["input_ids"]})

    def check(received, expected, atol):
        np.testing.assert_allclose(np.asarray(received), golden[expected], rtol=0, atol=atol)

    check(outputs["embedding_output"], "embedding_output", 5e-6)
    check(outputs["encoder_outputs"], "all_encoder_layers", 2e-5)
    check(outputs["sequence_output"], "sequence_output", 2e-5)
    check(outputs["pooled_output"], "pooled_output", 1e-5)
    check(hole["encoder_outputs"], "hole_all_encoder_layers", 2e-5)
    check(hole["pooled_output"], "hole_pooled_output", 1e-5)
    check(ids_alone["sequence_output"], "nomask_sequence_output", 2e-5)


def test_group_of_each_layer_follows_the_originals_rounding():
    index = json.loads(shared_path("golden/encoder/index.json").read_text())
    # Of up to 48 layers, those cases where floating point gives another group than whole numbers.
    cases = index["group_index"]["differs_from_exact_integer_rule"]
    assert cases
    for case in cases:
        config = AlbertConfig(
            vocab_size=7,
            embedding_size=2,
            hidden_size=2,
            num_attention_heads=1,
            intermediate_size=3,
            num_hidden_layers=case["layers"],
            num_hidden_groups=case["groups"],
            max_position_embeddings=5,
        )
        blocks = AlbertEncoder(config)
        names = [blocks.blocks[i].attention.name for i in blocks.block_order]
        assert names == [f"attention_{group}_0" for group in case["float_rule"]]


def test_pretraining_logits_losses_and_gradients():
    folder = shared_path("golden/pretraining")
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    model = AlbertPretrainer(AlbertEncoder(config))
    load_checkpoint(model, str(folder / "ckpt"))
    golden = np.load(folder / "io.npz")
    batch = {
        key: tf.constant(golden[key])
        for key in (
            "input_ids",
            "input_mask",
            "segment_ids",
            "masked_lm_positions",
            "masked_lm_ids",
            "masked_lm_weights",
            "next_sentence_labels",
        )
    }
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True)
        total = total_loss(PretrainingLoss(), batch, outputs)
    gradients = tape.gradient(total, model.trainable_variables)

    logits = np.reshape(outputs["masked_lm_logits"], golden["mlm_logits"].shape)
    np.testing.assert_allclose(logits, golden["mlm_logits"], rtol=0, atol=2e-5)
    np.testing.assert_allclose(
        outputs["sentence_order_logits"], golden["sop_logits"], rtol=0, atol=2e-5
    )
    np.testing.assert_allclose(total, golden["total_loss"], rtol=0, atol=5e-6)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        stored = stored_as_original(variable.path)
        expected = golden[f"grad/{stored}"]
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient),
            expected.T if stored.transposed else expected,
            rtol=1e-4,
            atol=2e-6,
            err_msg=variable.path,
        )
