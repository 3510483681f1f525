import collections
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export import export_classifier
from albert_tf.models import AlbertClassifier, AlbertEncoder
from tests.export.samples import LABELS, MAX_SEQ_LENGTH, VOCAB_SIZE
from tests.helpers import random_inputs, tiny_config

LAYERS = 7


@pytest.fixture(scope="module")
def bf16_model():
    config = tiny_config(vocab_size=VOCAB_SIZE, num_hidden_layers=LAYERS)
    encoder = AlbertEncoder(config, seed=1, dtype="mixed_bfloat16")
    return AlbertClassifier(encoder, num_classes=3, seed=2, dtype="mixed_bfloat16")


@pytest.fixture(scope="module")
def bf16_path(bf16_model, tokenizer, tmp_path_factory):
    export_dir = str(tmp_path_factory.mktemp("bf16"))
    return export_classifier(bf16_model, LABELS, tokenizer, export_dir, MAX_SEQ_LENGTH, False)[
        "ids"
    ]


def test_16_bit_weights_are_stored_as_they_are_computed_with(bf16_model, bf16_path):
    variables = tf.train.load_checkpoint(os.path.join(bf16_path, "variables", "variables"))
    dtypes = collections.Counter(
        dtype.name
        for name, dtype in variables.get_variable_to_dtype_map().items()
        if "VARIABLE_VALUE" in name
    )
    norms = sum(weight.path.endswith(("gamma", "beta")) for weight in bf16_model.weights)
    assert dtypes == {"float32": norms, "bfloat16": len(bf16_model.weights) - norms}
    data = pathlib.Path(bf16_path, "variables", "variables.data-00000-of-00001").stat().st_size
    assert data < 2.1 * bf16_model.count_params() + 20_000


def test_16_bit_weights_give_the_models_numbers(bf16_model, bf16_path):
    inputs = {name: tf.constant(value) for name, value in random_inputs(vocab_size=50).items()}
    outputs = tf.saved_model.load(bf16_path).signatures["serving_default"](**inputs)
    expected = tf.function(lambda: bf16_model(inputs, training=False))().numpy()
    np.testing.assert_allclose(outputs["logits"], expected, rtol=0, atol=1e-3)


def test_the_model_keeps_its_own_weights(bf16_model, bf16_path):
    assert {weight.dtype for weight in bf16_model.weights} == {"float32"}


def test_each_weight_is_read_once_however_often_the_block_is_applied(bf16_model, bf16_path):
    signature = tf.saved_model.load(bf16_path).signatures["serving_default"]
    definition = signature.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    reads = sum(node.op == "ReadVariableOp" for node in nodes)
    assert len(bf16_model.weights) == reads
