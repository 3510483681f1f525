import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models import AlbertEncoder
from tests.helpers import random_inputs, tiny_config
from tests.models.numpy_reference import encode, weights_of


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("inner", [1, 3])
def test_shared_weights_are_there_once(sharing, groups, inner):
    config = tiny_config(sharing=sharing, num_hidden_groups=groups, inner_group_num=inner)
    encoder = AlbertEncoder(config)
    layers = config.num_hidden_layers
    attentions = inner * (groups if sharing in ("all", "attention") else layers)
    feed_forwards = inner * (groups if sharing in ("all", "ffn") else layers)
    # Kernel and bias of query, key, value, output; gamma and beta.
    assert _count(encoder, "attention") == 10 * attentions
    # Kernel and bias of two dense layers; gamma and beta.
    assert _count(encoder, "ffn") == 6 * feed_forwards
    assert len(encoder.block_order) == layers * inner
    assert len({id(weight) for weight in encoder.weights}) == len(encoder.weights)


def _count(encoder, half):
    return sum(f"/{half}_" in weight.path for weight in encoder.weights)


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
def test_outputs_equal_a_slow_reference(sharing):
    config = tiny_config(
        sharing=sharing,
        num_hidden_groups=2,
        inner_group_num=2,
        hidden_act="gelu_erf" if sharing == "none" else "gelu",
    )
    encoder = AlbertEncoder(config, seed=1)
    rng = np.random.default_rng(2)
    for weight in encoder.weights:
        weight.assign(weight + rng.normal(0.0, 0.1, weight.shape))
    inputs = random_inputs()
    outputs = encoder(inputs)
    expected = encode(config, weights_of(encoder), inputs)
    assert len(outputs["encoder_outputs"]) == len(expected["encoder_outputs"]) == 10
    for name in ("sequence_output", "pooled_output", "encoder_outputs", "embedding_output"):
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


def test_without_projection_where_embedding_and_hidden_size_agree():
    encoder = AlbertEncoder(tiny_config(embedding_size=48))
    assert not any("projection" in weight.path for weight in encoder.weights)
    assert encoder(random_inputs())["embedding_output"].shape == (3, 11, 48)


def test_padding_changes_nothing():
    encoder = AlbertEncoder(tiny_config(), seed=3)
    inputs = random_inputs()
    other = {**inputs, "input_ids": np.where(inputs["input_mask"], inputs["input_ids"], 7)}
    assert (other["input_ids"] != inputs["input_ids"]).any()
    mask = inputs["input_mask"].astype(bool)
    np.testing.assert_allclose(
        np.asarray(encoder(inputs)["sequence_output"])[mask],
        np.asarray(encoder(other)["sequence_output"])[mask],
        atol=1e-6,
    )


def test_dropout_acts_in_training_alone():
    config = tiny_config(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
    encoder = AlbertEncoder(config, seed=3)
    inputs = random_inputs()
    once, again = (encoder(inputs)["sequence_output"] for _ in range(2))
    dropped, otherwise = (encoder(inputs, training=True)["sequence_output"] for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert np.abs(dropped - otherwise).max() > 0.1


def test_seed_decides_the_starting_values():
    one, same, other = (AlbertEncoder(tiny_config(), seed=seed).get_weights() for seed in (1, 1, 2))
    for first, second in zip(one, same, strict=True):
        np.testing.assert_array_equal(first, second)
    assert any((first != third).any() for first, third in zip(one, other, strict=True))


def test_every_kernel_starts_with_values_of_its_own():
    weights = AlbertEncoder(tiny_config(sharing="none"), seed=1).weights
    kernels = [np.asarray(w).ravel()[:100].tobytes() for w in weights if w.path.endswith("kernel")]
    assert len(set(kernels)) == len(kernels)


def test_mixed_precision_computes_in_16_bits_near_32():
    full = AlbertEncoder(tiny_config(), seed=1)
    mixed = AlbertEncoder(tiny_config(), seed=1, dtype="mixed_bfloat16")
    assert {str(weight.dtype) for weight in mixed.weights} == {"float32"}
    inputs = random_inputs()
    output = mixed(inputs)["sequence_output"]
    assert output.dtype.name == "bfloat16"
    expected = np.asarray(full(inputs)["sequence_output"])
    # bfloat16's numbers are 0.8 % apart, and each of five layers rounds.
    assert np.abs(np.asarray(output, np.float32) - expected).max() < 0.05 * np.abs(expected).max()


def test_without_pooler():
    encoder = AlbertEncoder(tiny_config(), with_pooler=False, seed=1)
    with_pooler = AlbertEncoder(tiny_config(), seed=1)
    assert len(encoder.weights) == len(with_pooler.weights) - 2
    outputs = encoder(random_inputs())
    assert "pooled_output" not in outputs
    np.testing.assert_array_equal(
        outputs["sequence_output"], with_pooler(random_inputs())["sequence_output"]
    )


def test_two_forms_of_gelu():
    outputs = {}
    for form in ("gelu", "gelu_erf"):
        encoder = AlbertEncoder(tiny_config(hidden_act=form, initializer_range=0.5), seed=1)
        outputs[form] = encoder(random_inputs())["sequence_output"]
    difference = np.abs(np.subtract(outputs["gelu"], outputs["gelu_erf"])).max()
    assert 1e-5 < difference < 1e-1


def test_a_graph_holds_the_shared_block_once():
    def count_products(num_layers):
        encoder = AlbertEncoder(tiny_config(num_hidden_layers=num_layers))
        encode = tf.function(lambda ids: encoder({"input_ids": ids})["sequence_output"])
        graph = encode.get_concrete_function(tf.TensorSpec((None, None), tf.int32)).graph
        functions = graph.as_graph_def().library.function
        return sum(node.op == "MatMul" for function in functions for node in function.node_def)

    # Query, key, value, output, and two of the feed-forward layer.
    assert count_products(2) == count_products(4) == 6
