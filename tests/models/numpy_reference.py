"""A slow model in float64 NumPy, one head and one layer at a time, written from the paper."""

import math

import numpy as np


def weights_of(model):
    """Returns the weights of a model by their paths without the model's name."""
    return {
        weight.path.split("/", 1)[1]: np.asarray(weight, np.float64) for weight in model.weights
    }


def encode(config, weights, inputs):
    """Returns what an encoder of these weights should."""
    ids, segments = inputs["input_ids"], inputs["segment_ids"]
    embedded = (
        weights["embedding/word_embeddings"][ids]
        + weights["embedding/position_embeddings"][None, : ids.shape[1]]
        + weights["embedding/segment_embeddings"][segments]
    )
    embedded = _layer_norm(embedded, weights, "embedding")
    hidden = embedded
    if config.embedding_size != config.hidden_size:
        hidden = _dense(embedded, weights, "embedding/projection")
    layers, is_exact = [], config.hidden_act == "gelu_erf"
    for layer in range(config.num_hidden_layers):
        group = int(layer / config.num_hidden_layers * config.num_hidden_groups)
        for inner in range(config.inner_group_num):
            attention = group if config.sharing in ("all", "attention") else layer
            feed_forward = group if config.sharing in ("all", "ffn") else layer
            of_attention = _part(weights, f"attention_{attention}_{inner}")
            hidden = _attend(hidden, inputs["input_mask"], of_attention, config)
            hidden = _transform(hidden, _part(weights, f"ffn_{feed_forward}_{inner}"), is_exact)
            layers.append(hidden)
    return {
        "sequence_output": hidden,
        "pooled_output": np.tanh(_dense(hidden[:, 0], weights, "pooler/dense")),
        "encoder_outputs": layers,
        "embedding_output": embedded,
    }


def _part(weights, name):
    return {
        path.split(f"/{name}/")[1]: value for path, value in weights.items() if f"/{name}/" in path
    }


def _attend(hidden, mask, weights, config):
    size = config.hidden_size // config.num_attention_heads
    output = np.zeros_like(hidden)
    for row in range(len(hidden)):
        names = ("query", "key", "value")
        query, key, value = (_dense(hidden[row], weights, name) for name in names)
        for head in range(config.num_attention_heads):
            columns = slice(head * size, (head + 1) * size)
            scores = query[:, columns] @ key[:, columns].T / np.sqrt(size)
            scores += (1 - mask[row])[None, :] * -10000.0
            probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            output[row, :, columns] = probabilities @ value[:, columns]
    return _layer_norm(hidden + _dense(output, weights, "output"), weights)


def _transform(hidden, weights, is_exact):
    middle = _gelu(_dense(hidden, weights, "intermediate"), is_exact)
    return _layer_norm(hidden + _dense(middle, weights, "output"), weights)


def _gelu(x, is_exact=False):
    if is_exact:
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _dense(x, weights, name):
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def _layer_norm(x, weights, name=None):
    prefix = f"{name}/layer_norm" if name else "layer_norm"
    centred = x - x.mean(axis=-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    return normal * weights[f"{prefix}/gamma"] + weights[f"{prefix}/beta"]
