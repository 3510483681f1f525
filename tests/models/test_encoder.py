import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models import AlbertEncoder
from tests.helpers import assert_same_weights, random_inputs, tiny_config
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
        # Without sharing also the other form of gelu, and no projection.
        **({"hidden_act": "gelu_erf", "embedding_size": 48} if sharing == "none" else {}),
    )
    encoder = AlbertEncoder(config, seed=1)
    rng = np.random.default_rng(2)
    for weight in encoder.weights:
        weight.assign(weight + rng.normal(0.0, 0.1, weight.shape))
    inputs = random_inputs()
    outputs = encoder(inputs)
    expected = encode(config, weights_of(encoder), inputs)
    assert len(outputs["encoder_outputs"]) == len(expected["encoder_outputs"]) == 6
    for name in ("sequence_output", "pooled_output", "encoder_outputs", "embedding_output"):
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


def test_dropout_acts_in_training_alone():
    config = tiny_config(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
    encoder = AlbertEncoder(config, seed=3)
    inputs = random_inputs()
    once, again = (encoder(inputs)["sequence_output"] for _ in range(2))
    dropped, otherwise = (encoder(inputs, training=True)["sequence_output"] for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert np.abs(dropped - otherwise).max() > 0.1


def test_seed_decides_the_starting_values_of_each_kernel():
    config = tiny_config(num_hidden_layers=2, sharing="none")
    one, same, other = (AlbertEncoder(config, seed=seed) for seed in (1, 1, 2))
    assert_same_weights(one, same)
    unseeded = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        unseeded.append(AlbertEncoder(config))
    assert_same_weights(*unseeded)
    kernels = [w for w in (*one.weights, *other.weights) if "kernel" in w.path]
    values = [np.asarray(kernel).ravel()[:100].tobytes() for kernel in kernels]
    assert len(set(values)) == len(values)


def test_without_pooler():
    encoder = AlbertEncoder(tiny_config(), with_pooler=False, seed=1)
    with_pooler = AlbertEncoder(tiny_config(), seed=1)
    assert len(encoder.weights) == len(with_pooler.weights) - 2
    outputs, expected = encoder(random_inputs()), with_pooler(random_inputs())
    assert "pooled_output" not in outputs
    np.testing.assert_array_equal(outputs["sequence_output"], expected["sequence_output"])


def test_a_graph_holds_the_shared_block_once():
    def count_products(num_layers):
        encoder = AlbertEncoder(tiny_config(num_hidden_layers=num_layers))
        encode = tf.function(lambda ids: encoder({"input_ids": ids})["sequence_output"])
        graph = encode.get_concrete_function(tf.TensorSpec((None, None), tf.int32)).graph
        functions = graph.as_graph_def().library.function
        return sum(node.op == "MatMul" for function in functions for node in function.node_def)

    # Query, key, value, output, and two of the feed-forward layer.
    assert count_products(2) == count_products(4) == 6
