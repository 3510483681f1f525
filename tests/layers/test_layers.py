import numpy as np
import pytest

from albert_tf.layers import (
    ClassificationHead,
    ConditionalSpanHead,
    EncoderLayer,
    FactorizedEmbedding,
    FeedForward,
    MaskedLMHead,
    Pooler,
    SelfAttention,
    SpanHead,
)

B, S, E, H, N, F, V, M = 3, 11, 16, 48, 4, 80, 97, 5
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, V, (B, S), np.int32)
SEGMENTS = RNG.integers(0, 2, (B, S), np.int32)
HIDDEN = RNG.normal(size=(B, S, H)).astype(np.float32)
NO_BIAS = np.zeros((B, 1, 1, S), np.float32)
POSITIONS = RNG.integers(0, S, (B, M), np.int32)
TABLE = RNG.normal(size=(V, E)).astype(np.float32)


def make_encoder_layer(**kwargs):
    return EncoderLayer(
        SelfAttention(hidden_size=H, num_heads=N, seed=1, **kwargs),
        FeedForward(hidden_size=H, intermediate_size=F, activation="relu", seed=2, **kwargs),
        **kwargs,
    )


# Each layer's constructor, inputs, and the shapes of its outputs.
LAYERS = {
    "embedding": (
        lambda **kwargs: FactorizedEmbedding(V, E, H, max_position_embeddings=S, seed=1, **kwargs),
        (IDS, SEGMENTS),
        [(B, S, E), (B, S, H)],
    ),
    "attention": (
        lambda **kwargs: SelfAttention(hidden_size=H, num_heads=N, seed=1, **kwargs),
        (HIDDEN, NO_BIAS),
        [(B, S, H)],
    ),
    "feed_forward": (
        lambda **kwargs: FeedForward(hidden_size=H, intermediate_size=F, seed=1, **kwargs),
        (HIDDEN,),
        [(B, S, H)],
    ),
    "encoder_layer": (make_encoder_layer, (HIDDEN, NO_BIAS), [(B, S, H)]),
    "pooler": (lambda **kwargs: Pooler(H, seed=1, **kwargs), (HIDDEN,), [(B, H)]),
    "masked_lm_head": (
        lambda **kwargs: MaskedLMHead(vocab_size=V, embedding_size=E, seed=1, **kwargs),
        (HIDDEN[:, :M], TABLE),
        [(B, M, V)],
    ),
    "pooled_head": (
        lambda **kwargs: ClassificationHead(num_classes=7, dropout=0.1, seed=1, **kwargs),
        (HIDDEN[:, 0],),
        [(B, 7)],
    ),
    "token_head": (
        lambda **kwargs: ClassificationHead(num_classes=7, dropout=0.1, seed=1, **kwargs),
        (HIDDEN,),
        [(B, S, 7)],
    ),
    "conditional_span_head": (
        lambda **kwargs: ConditionalSpanHead(H, dropout=0.1, seed=1, **kwargs),
        (HIDDEN, np.zeros_like(SEGMENTS), np.zeros(B, np.int32)),
        [(B,), (B, S), (B, S)],
    ),
    "span_head": (lambda **kwargs: SpanHead(seed=1, **kwargs), (HIDDEN,), [(B, S), (B, S)]),
}


def outputs_of(layer, inputs):
    outputs = layer(*inputs)
    if isinstance(outputs, dict):
        # Without those of the beam, whose order depends on rounding.
        return [output for name, output in outputs.items() if "_top_" not in name]
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


@pytest.mark.parametrize("name", LAYERS)
def test_shapes(name):
    make, inputs, shapes = LAYERS[name]
    assert [output.shape for output in outputs_of(make(), inputs)] == shapes


@pytest.mark.parametrize("name", LAYERS)
def test_mixed_precision_stays_near_full(name):
    make, inputs, _ = LAYERS[name]
    full, mixed = make(), make(dtype="mixed_bfloat16")
    exact = [np.asarray(output) for output in outputs_of(full, inputs)]
    scale = max(np.abs(output).max() for output in exact)
    for ours, theirs in zip(exact, outputs_of(mixed, inputs), strict=True):
        # bfloat16's numbers are 0.8 % apart; where they are rounded differs between processors.
        assert np.abs(np.asarray(theirs, np.float32) - ours).max() < 0.02 * scale
    assert {str(weight.dtype) for weight in mixed.weights} == {"float32"}


def test_blocks_share_the_half_they_are_given():
    attention = SelfAttention(hidden_size=H, num_heads=N, seed=1)
    blocks = [
        EncoderLayer(attention, FeedForward(hidden_size=H, intermediate_size=F, seed=seed))
        for seed in (2, 3)
    ]
    outputs = [block(HIDDEN, NO_BIAS) for block in blocks]
    assert (outputs[0] != outputs[1]).numpy().any()
    weights = {id(weight) for block in blocks for weight in block.weights}
    assert len(weights) == len(attention.weights) + 2 * len(blocks[0].feed_forward.weights)


def test_position_that_is_masked_out_is_not_seen():
    layer = SelfAttention(hidden_size=H, num_heads=N, seed=1)
    bias = NO_BIAS.copy()
    bias[:, :, :, 7] = -10000.0
    other = HIDDEN.copy()
    other[:, 7] += 1.0
    seen = np.arange(S) != 7
    np.testing.assert_array_equal(
        np.asarray(layer(HIDDEN, bias))[:, seen], np.asarray(layer(other, bias))[:, seen]
    )
    assert (layer(HIDDEN, NO_BIAS) != layer(other, NO_BIAS)).numpy()[:, seen].any()
