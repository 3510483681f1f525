import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models import AlbertEncoder, flash_attention
from tests.helpers import random_inputs, refused, tiny_config

SIZES = {"hidden_size": 32, "num_attention_heads": 4}
SIZES |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def make_encoder(flash, dtype="mixed_bfloat16", depths=(), **config):
    config = tiny_config(**SIZES | config)
    options = {"flash_attention": flash, "trained_num_hidden_layers": depths}
    return AlbertEncoder(config, **options, seed=1, dtype=dtype)


def make_inputs():
    return {name: x[:, :10] for name, x in random_inputs(4).items()}


def kernel(target, operands, results, backend_config):
    """What cuDNN's kernels compute, in float32: the order of operands and results is XLA's."""
    config = json.loads(backend_config)["cudnn_fmha_backend_config"]
    operands = [tf.cast(operand, tf.float32) for operand in operands]
    query, key, value = operands[:3]
    bias = operands[5] if target.endswith("Backward") else operands[3]
    scores = config["fmha_scale"] * tf.matmul(query, key, transpose_b=True) + bias
    if target.endswith("Backward"):
        log_sums, upstream, context = operands[3], operands[4], operands[6]
        probabilities = tf.exp(scores - log_sums[..., None])
        by_probability = tf.matmul(upstream, value, transpose_b=True)
        centre = tf.reduce_sum(upstream * context, -1, keepdims=True)
        by_score = config["fmha_scale"] * probabilities * (by_probability - centre)
        computed = [
            tf.matmul(by_score, key),
            tf.matmul(by_score, query, transpose_a=True),
            tf.matmul(probabilities, upstream, transpose_a=True),
        ]
    else:
        computed = [tf.matmul(tf.nn.softmax(scores), value), tf.reduce_logsumexp(scores, -1)]
    for value, spec in zip(computed, results[:-1], strict=True):
        assert value.shape == spec.shape
    return [tf.cast(x, spec.dtype) for x, spec in zip(computed, results[:-1], strict=True)] + [None]


def gradients(encoder, inputs):
    with tf.GradientTape() as tape:
        outputs = encoder(inputs, training=True)
        output = tf.cast(outputs["sequence_output"], tf.float32)
        loss = tf.reduce_sum(output * tf.random.stateless_normal(output.shape, (1, 2)))
    return output, *tape.gradient(loss, encoder.trainable_variables[:-2])


def test_training_gives_the_same_hidden_states_and_gradients(monkeypatch):
    inputs, called = make_inputs(), []

    def record(target, operands, results, backend_config):
        called.append(target)
        return kernel(target, operands, results, backend_config)

    monkeypatch.setattr(flash_attention.xla, "custom_call_v2", record)
    plain, flash = (gradients(make_encoder(flag), inputs) for flag in (False, True))
    for expected, value in zip(plain, flash, strict=True):
        expected, value = (tf.cast(tf.convert_to_tensor(x), tf.float32) for x in (expected, value))
        # The gradient of the keys' bias is 0 but for rounding.
        assert tf.norm(value - expected) <= 0.02 * tf.norm(expected) + 1e-3
    layers = make_encoder(True).config.num_hidden_layers
    assert len(called) == 2 * layers
    # Without training, anywhere: on a CPU there is no kernel.
    make_encoder(True)(inputs)
    assert len(called) == 2 * layers


@pytest.mark.parametrize(("depths", "calls"), [((), 2), ((2, 3, 5), 4)])
def test_compiled_training_calls_the_kernels_of_all_applications_but_the_last(depths, calls):
    inputs = make_inputs() | {"output_positions": np.zeros((4, 1), np.int32)}
    encoder = make_encoder(True, depths=depths, num_hidden_layers=3)
    step = tf.function(lambda batch: gradients(encoder, batch), autograph=False, jit_compile=True)
    hlo = step.experimental_get_compiler_ir(inputs)(stage="hlo")
    for target in ("Softmax", "SoftmaxBackward"):
        assert hlo.count(f'custom_call_target="__cudnn$fmhaScaleBias{target}"') == calls


@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(("dtype", "limit"), [("bfloat16", 5e-3), ("float16", 1e-3)])
@pytest.mark.parametrize("shape", [(32, 12, 512, 64), (3, 8, 40, 64), (2, 3, 62, 32)])
def test_kernel_computes_attention_and_its_gradients(dtype, limit, shape):
    def attend(query, key, value, bias):
        scores = tf.matmul(query, key, transpose_b=True) / shape[-1] ** 0.5 + bias
        return tf.matmul(tf.nn.softmax(scores), value)

    def differentiate(attention, upstream, bias, *operands):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            context = attention(*operands, bias)
            loss = tf.reduce_sum(tf.cast(context * upstream, tf.float32))
        return context, *tape.gradient(loss, operands)

    rng = np.random.default_rng(0)
    upstream, *operands = (tf.cast(rng.standard_normal(shape), dtype) for _ in range(4))
    bias = tf.cast(np.where(rng.random((shape[0], 1, 1, shape[2])) < 0.2, -1e4, 0.0), tf.float32)
    compiled = tf.function(differentiate, autograph=False, jit_compile=True)
    exact = [tf.cast(x, tf.float32) for x in (upstream, bias, *operands)]
    computed = compiled(flash_attention.flash_attention, upstream, bias, *operands)
    for value, expected in zip(computed, compiled(attend, *exact), strict=True):
        assert tf.norm(tf.cast(value, tf.float32) - expected) <= limit * tf.norm(expected)


@pytest.mark.parametrize(
    ("dtype", "config", "received"),
    [
        ("float32", {}, "received float32, 4 heads of 32 units together, and 0.0"),
        ("mixed_bfloat16", {"num_attention_heads": 8}, "received bfloat16, 8 heads of 32 units"),
        ("mixed_float16", {"attention_probs_dropout_prob": 0.1}, "received float16, .* and 0.1"),
    ],
)
def test_what_the_kernel_cannot_train_is_refused(dtype, config, received):
    with refused(f"flash_attention: expected 16-bit precision, heads of a .*{received}"):
        make_encoder(True, dtype, **config)
