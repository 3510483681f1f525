"""Other ways to compute an encoder, such as real tokens alone, have the same outputs and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models import (
    AlbertClassifier,
    AlbertEmbedder,
    AlbertEncoder,
    AlbertMultipleChoice,
)
from tests.helpers import random_inputs, refused, slow_except, tiny_config

PAD = 0


def padded_inputs(batch_size=4):
    """Returns inputs (B, 11) of 1 to 11 tokens each, and the same with the places of the tokens."""
    inputs = random_inputs(batch_size)
    lengths = np.linspace(11, 1, batch_size).astype(int)
    inputs["input_mask"] = (np.arange(11) < lengths[:, None]).astype(np.int32)
    inputs["input_ids"] = np.maximum(inputs["input_ids"], PAD + 1) * inputs["input_mask"]
    return inputs, {**inputs, "token_positions": np.flatnonzero(inputs["input_mask"])}


def assert_close(received, expected, atol=1e-6):
    np.testing.assert_allclose(received, expected, rtol=0, atol=atol)


def test_outputs_at_tokens_are_the_same_in_a_graph():
    encoder = AlbertEncoder(tiny_config(num_hidden_groups=2), seed=1)
    inputs, of_tokens = padded_inputs()
    expected, outputs = encoder(inputs), tf.function(encoder)(of_tokens)
    is_token = inputs["input_mask"] == 1
    for name in ("sequence_output", "encoder_outputs"):
        ours, theirs = np.asarray(outputs[name]), np.asarray(expected[name])
        assert ours.shape == theirs.shape
        assert_close(ours[..., is_token, :], theirs[..., is_token, :], atol=1e-5)
        assert np.isfinite(ours).all()
    assert_close(outputs["pooled_output"], expected["pooled_output"])


def test_padding_is_not_computed():
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1)
    inputs, of_tokens = padded_inputs()
    table = encoder.embedding.word_embeddings
    table.assign(np.where(np.arange(table.shape[0])[:, None] == PAD, np.nan, table))
    assert np.isnan(encoder(inputs)["pooled_output"]).any()
    assert np.isfinite(encoder(of_tokens)["pooled_output"]).all()


@pytest.mark.parametrize(
    ("options", "is_unpadded"),
    [({"use_one_hot_embeddings": True}, False), ({}, True), ({"remat": True}, True)],
)
def test_gradients_are_the_same(options, is_unpadded):
    config = tiny_config(num_hidden_layers=3)
    padded, of_tokens = padded_inputs()
    found = []
    for options_of, inputs in ((options, of_tokens if is_unpadded else padded), ({}, padded)):
        encoder = AlbertEncoder(config, **options_of, seed=1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(encoder(inputs, training=True)["pooled_output"]))
        found.append(tape.gradient(loss, [v.value for v in encoder.trainable_variables]))
    for ours, theirs in zip(*found, strict=True):
        assert_close(*map(tf.convert_to_tensor, (ours, theirs)), atol=1e-5)


def test_multiple_choice():
    model = AlbertMultipleChoice(AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1), seed=2)
    flat, of_tokens = padded_inputs(6)
    inputs = {name: ids.reshape(2, 3, -1) for name, ids in flat.items()}
    received = model({**inputs, "token_positions": of_tokens["token_positions"]})
    assert_close(received, model(inputs))


@pytest.mark.parametrize("batch_size", [0, 1])
def test_batches_without_padding(batch_size):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1)
    inputs = {name: ids[:batch_size] for name, ids in random_inputs(2).items()}
    outputs = encoder({**inputs, "token_positions": np.arange(batch_size * 11)})["sequence_output"]
    assert_close(outputs, encoder(inputs)["sequence_output"])


@pytest.mark.parametrize("is_unpadded", [False, True])
@pytest.mark.parametrize("reads_cls", ["classifier", "embedder"])
def test_models_that_read_cls_alone_learn_as_if_all_positions_were_computed(reads_cls, is_unpadded):
    encoder = AlbertEncoder(tiny_config(num_hidden_layers=2), seed=1)
    if reads_cls == "classifier":
        model = AlbertClassifier(encoder, 3, dropout=0.0, seed=2)

        def of_all(outputs):
            return model.head(outputs["pooled_output"], training=True)
    else:
        model = AlbertEmbedder(encoder, pooling="cls")

        def of_all(outputs):
            return outputs["sequence_output"][:, 0]

    padded, of_tokens = padded_inputs()
    inputs = of_tokens if is_unpadded else padded

    def outputs_and_gradients(call):
        with tf.GradientTape() as tape:
            outputs = call()
            loss = tf.reduce_sum(tf.square(outputs[:, 0]))
        return outputs, tape.gradient(loss, [v.value for v in model.trainable_variables])

    received = outputs_and_gradients(lambda: model(inputs, training=True))
    expected = outputs_and_gradients(lambda: of_all(encoder(inputs, training=True)))
    assert_close(received[0], expected[0])
    for ours, theirs in zip(received[1], expected[1], strict=True):
        if theirs is not None:
            assert_close(*map(tf.convert_to_tensor, (ours, theirs)), atol=1e-5)


# A drawn number of layers


@pytest.mark.parametrize("blocks", [1, 2])
def test_each_call_in_training_draws_a_number_of_layers(blocks):
    config = tiny_config(num_hidden_layers=2, inner_group_num=blocks)
    numbers, inputs = (1, 2, 4), {**random_inputs(), "output_positions": np.array([[0, 3]] * 3)}
    encoder = AlbertEncoder(config, trained_num_hidden_layers=numbers, seed=1)
    fixed = {number: AlbertEncoder(config.with_layers(number), seed=1) for number in numbers}
    losses = {}
    for number, other in fixed.items():
        other.set_weights(encoder.get_weights())
        losses[float(loss_and_gradients(other, inputs)[0])] = number
    assert_close(encoder(inputs)["sequence_output"], fixed[2](inputs)["sequence_output"])
    step, drawn = tf.function(lambda: loss_and_gradients(encoder, inputs)), set()
    for _ in range(24):
        loss, gradients = step()
        nearest = min(losses, key=lambda other: abs(other - float(loss)))
        assert nearest == pytest.approx(float(loss), rel=1e-5)
        if losses[nearest] not in drawn:
            drawn.add(losses[nearest])
            expected = loss_and_gradients(fixed[losses[nearest]], inputs)[1]
            assert_gradients_agree(gradients, expected)
    assert drawn == set(numbers)


@pytest.mark.parametrize(
    ("sharing", "numbers", "remat", "message"),
    [
        ("all", (2, 4), False, "{}=2,4: expected the model's own number, 3, among them"),
        ("all", (3, 3, 4), False, "{}=3,3,4: expected each number once"),
        ("all", (3, 0), False, "{}=3,0: num_hidden_layers 0 is not a positive integer"),
        ("ffn", (3, 4), False, "{}=3,4: num_hidden_layers=3: expected layers that share all"),
        ("all", (3, 4), True, "remat: expected a single number of layers, received {}=3,4; num_"),
    ],
)
def test_numbers_of_layers_that_cannot_be_drawn_are_refused(sharing, numbers, remat, message):
    config = tiny_config(num_hidden_layers=3, sharing=sharing)
    with refused(f"^{message.format('trained_num_hidden_layers')}"):
        AlbertEncoder(config, remat=remat, trained_num_hidden_layers=numbers)


# Recomputed activations

DROPOUT = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2}


def make_encoder(remat, **config):
    return AlbertEncoder(tiny_config(**DROPOUT, **config), remat=remat, seed=1)


def loss_and_gradients(encoder, inputs):
    with tf.GradientTape() as tape:
        outputs = encoder(inputs, training=True)
        loss = tf.reduce_sum(outputs["sequence_output"] ** 3)
        loss += tf.reduce_sum(outputs["pooled_output"])
    gradients = tape.gradient(loss, encoder.trainable_variables)
    return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


def assert_gradients_agree(ours, theirs):
    """Fails where a gradient differs by more than rounding, which the largest numbers decide."""
    scale = max(np.abs(gradient).max() for gradient in theirs)
    for our_gradient, their_gradient in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our_gradient, their_gradient, rtol=0, atol=2e-6 * scale)


@pytest.mark.parametrize("sharing", slow_except(["all", "ffn"], "ffn"))
def test_gradients_are_those_without_and_dropout_goes_on(sharing):
    inputs = random_inputs()
    losses, gradients = {}, {}
    for remat in (False, True):
        encoder = make_encoder(remat, sharing=sharing, num_hidden_layers=2)
        step = tf.function(lambda encoder=encoder: loss_and_gradients(encoder, inputs))
        steps = [step() for _ in range(2)]
        losses[remat] = [float(loss) for loss, _ in steps]
        gradients[remat] = steps[1][1]
    # A second step drops other units, the same ones with and without.
    assert abs(losses[True][0] - losses[True][1]) > 1e-2
    np.testing.assert_allclose(losses[True], losses[False], rtol=1e-5)
    assert_gradients_agree(gradients[True], gradients[False])


def kept_numbers(remat, layers):
    """Counts the numbers that the backward pass takes from the forward pass, weights left out."""
    encoder = make_encoder(remat, num_hidden_layers=layers)
    inputs = random_inputs()
    forward_operations = []

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(inputs, training=True)["sequence_output"])
        forward_operations.extend(tf.compat.v1.get_default_graph().get_operations())
        return tape.gradient(loss, encoder.trainable_variables)

    operations = step.get_concrete_function().graph.get_operations()
    forward = {operation.name for operation in forward_operations}
    kept = {
        tensor.name: tensor.shape.num_elements()
        for operation in operations
        if operation.name not in forward
        for tensor in operation.inputs
        if tensor.op.name in forward
        and tensor.dtype == tf.float32
        and tensor.op.type not in ("Const", "ReadVariableOp")
    }
    return sum(kept.values())


@pytest.mark.slow
def test_each_layer_keeps_its_input_alone():
    # (B, S, H) of `random_inputs` and `tiny_config`
    activation = 3 * 11 * 48
    kept, with_remat = (kept_numbers(x, 7) - kept_numbers(x, 4) for x in (False, True))
    assert with_remat <= 3 * 1.1 * activation
    assert kept > 3 * 8 * activation
