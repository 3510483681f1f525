import functools
import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.layers.primitives import activation
from albert_tf.models import AlbertEncoder
from tests.helpers import assert_same_weights, random_inputs, tiny_config


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


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn"])
def test_a_shared_block_computes_what_copies_of_it_do(sharing):
    """The layers that share nothing are those of other implementations: test_examples.py, `parity`."""
    groups = {"num_hidden_groups": 2, "inner_group_num": 2}
    shared, copies = (
        AlbertEncoder(tiny_config(sharing=each, **groups), seed=1) for each in (sharing, "none")
    )
    rng = np.random.default_rng(2)
    for weight in shared.weights:
        weight.assign(weight + rng.normal(0.0, 0.1, weight.shape))
    values = {_part(weight.path): weight for weight in shared.weights}
    for weight in copies.weights:
        part = _part(weight.path)
        if found := re.match(r"(attention|ffn)_(\d)_(.*)", part):
            half, layer, rest = found.groups()
            is_shared = sharing in ("all", half)
            place = shared.config.group_of_layer(int(layer)) if is_shared else layer
            part = f"{half}_{place}_{rest}"
        weight.assign(values[part])
    outputs, expected = shared(random_inputs()), copies(random_inputs())
    compare = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-5)
    keras.tree.map_structure(compare, outputs, expected)
    assert len(outputs["encoder_outputs"]) == 6


def _part(path):
    """Returns the path of a weight without the encoder and the block."""
    return re.sub(r"^albert_encoder/(block_\d+/)?", "", path)


def test_exact_gelu_is_that_of_the_error_function():
    x = np.linspace(-4.0, 4.0, 33, dtype=np.float32)
    expected = [0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in x]
    np.testing.assert_allclose(activation("gelu_erf")(x), expected, rtol=0, atol=1e-6)


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
