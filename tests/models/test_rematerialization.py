import numpy as np
import pytest
import tensorflow as tf

from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.optimization import Lamb
from albert_tf.training import Trainer, make_strategy
from tests.helpers import random_inputs, random_pretraining_batches, slow_except, tiny_config

DROPOUT = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2}


def make_encoder(remat, **config):
    return AlbertEncoder(tiny_config(**DROPOUT, **config), remat=remat, seed=1)


def loss_and_gradients(encoder, inputs):
    with tf.GradientTape() as tape:
        outputs = encoder(inputs, training=True)
        loss = tf.reduce_sum(outputs["sequence_output"] ** 3) + tf.reduce_sum(
            outputs["pooled_output"]
        )
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
        encoder = make_encoder(remat, sharing=sharing, num_hidden_layers=3)
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
    more_layers = {
        remat: kept_numbers(remat, 7) - kept_numbers(remat, 4) for remat in (False, True)
    }
    assert more_layers[True] <= 3 * 1.1 * activation
    assert more_layers[False] > 3 * 8 * activation


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy_name", "jit_compile"),
    [
        ("one_device", False),
        ("one_device", True),
        ("mirrored", False),
    ],
)
def test_trainer_learns_the_same(strategy_name, jit_compile):
    strategy = make_strategy(strategy_name)
    losses = []
    for remat in (False, True):
        with strategy.scope():
            encoder = make_encoder(remat, num_hidden_layers=2)
            trainer = Trainer(
                AlbertPretrainer(encoder, seed=2),
                PretrainingLoss(),
                Lamb(0.02),
                strategy,
                seed=3,
                jit_compile=jit_compile,
            )
        batches = trainer.distribute(random_pretraining_batches(2))
        losses.append(trainer.train_steps(batches, 2)["masked_lm_loss"][0])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
