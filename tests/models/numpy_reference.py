"""A slow encoder in float64 NumPy, one head and one layer at a time, written from the paper."""

import numpy as np


def encode(encoder, inputs):
    """Returns what `encoder` should, from its weights alone."""
    config = encoder.config
    weights = {
        w.path.removeprefix("albert_encoder/"): np.asarray(w, np.float64) for w in encoder.weights
    }
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
    layers = []
    for layer in range(config.num_hidden_layers):
        group = int(layer / config.num_hidden_layers * config.num_hidden_groups)
        for inner in range(config.inner_group_num):
            attention = group if config.sharing in ("all", "attention") else layer
            feed_forward = group if config.sharing in ("all", "ffn") else layer
            hidden = _attend(
                hidden,
                inputs["input_mask"],
                _part(weights, f"attention_{attention}_{inner}"),
                config,
            )
            hidden = _transform(hidden, _part(weights, f"ffn_{feed_forward}_{inner}"))
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
        query, key, value = (
            _dense(hidden[row], weights, name) for name in ("query", "key", "value")
        )
        for head in range(config.num_attention_heads):
            columns = slice(head * size, (head + 1) * size)
            scores = query[:, columns] @ key[:, columns].T / np.sqrt(size)
            scores += (1 - mask[row])[None, :] * -10000.0
            probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            output[row, :, columns] = probabilities @ value[:, columns]
    return _layer_norm(hidden + _dense(output, weights, "output"), weights)


def _transform(hidden, weights):
    middle = _dense(hidden, weights, "intermediate")
    middle = 0.5 * middle * (1 + np.tanh(np.sqrt(2 / np.pi) * (middle + 0.044715 * middle**3)))
    return _layer_norm(hidden + _dense(middle, weights, "output"), weights)


def _dense(x, weights, name):
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def _layer_norm(x, weights, name=None):
    prefix = f"{name}/layer_norm" if name else "layer_norm"
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return (
        centred / np.sqrt(variance + 1e-12) * weights[f"{prefix}/gamma"] + weights[f"{prefix}/beta"]
    )
