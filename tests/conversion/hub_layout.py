"""What TF Hub's encoders hold and compute, written from the names and shapes of a real export."""

import numpy as np
import tensorflow as tf

# The masked-LM head's variables.
HEAD = "bert/cls/predictions"


def hub_tensors(embedding=16):
    """Returns random tensors by the names of the library's variables, in its order."""
    projection = {
        "embedding_projection/kernel": (embedding, 48),
        "embedding_projection/bias": (48,),
    }
    shapes = {
        "word_embeddings/embeddings": (97, embedding),
        "position_embedding/embeddings": (64, embedding),
        "type_embeddings/embeddings": (2, embedding),
        "embeddings/layer_norm/gamma": (embedding,),
        "embeddings/layer_norm/beta": (embedding,),
        **(projection if embedding != 48 else {}),
        "transformer/self_attention/query/kernel": (48, 4, 12),
        "transformer/self_attention/query/bias": (4, 12),
        "transformer/self_attention/key/kernel": (48, 4, 12),
        "transformer/self_attention/key/bias": (4, 12),
        "transformer/self_attention/value/kernel": (48, 4, 12),
        "transformer/self_attention/value/bias": (4, 12),
        "transformer/self_attention/attention_output/kernel": (4, 12, 48),
        "transformer/self_attention/attention_output/bias": (48,),
        "transformer/self_attention_layer_norm/gamma": (48,),
        "transformer/self_attention_layer_norm/beta": (48,),
        "transformer/intermediate/kernel": (48, 80),
        "transformer/intermediate/bias": (80,),
        "transformer/output/kernel": (80, 48),
        "transformer/output/bias": (48,),
        "transformer/output_layer_norm/gamma": (48,),
        "transformer/output_layer_norm/beta": (48,),
        "pooler_transform/kernel": (48, 48),
        "pooler_transform/bias": (48,),
        f"{HEAD}/output_bias/bias": (97,),
        f"{HEAD}/transform/dense/kernel": (48, embedding),
        f"{HEAD}/transform/dense/bias": (embedding,),
        f"{HEAD}/transform/LayerNorm/gamma": (embedding,),
        f"{HEAD}/transform/LayerNorm/beta": (embedding,),
    }
    rng = np.random.default_rng(embedding)
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def save(folder, **attributes):
    """Writes a SavedModel of an object with these attributes."""
    root = tf.__internal__.tracking.AutoTrackable()
    for name, value in attributes.items():
        setattr(root, name, value)
    tf.saved_model.save(root, str(folder))
    return str(folder)


def export(folder, tensors):
    """Writes a SavedModel with the library's keys and names: variables counted, a head's in `mlm`."""
    variables = [tf.Variable(value, name=name) for name, value in tensors.items()]
    of_encoder = [variable for variable in variables if "cls/predictions" not in variable.name]
    if len(of_encoder) == len(variables):
        return save(folder, variables=variables)
    mlm = tf.__internal__.tracking.AutoTrackable()
    mlm.variables = variables
    return save(folder, variables=of_encoder, mlm=mlm)


def hub_outputs(tensors, inputs, positions, layers=5):
    """Returns what the library computes, in float64 NumPy, each head along an axis of its own."""
    weights = {name: value.astype(np.float64) for name, value in tensors.items()}

    def dense(x, name, axes="bsx,xy->bsy"):
        return np.einsum(axes, x, weights[f"{name}/kernel"]) + weights[f"{name}/bias"]

    def norm(x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}/gamma"] + weights[f"{name}/beta"]

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    hidden = (
        weights["word_embeddings/embeddings"][inputs["input_ids"]]
        + weights["position_embedding/embeddings"][: inputs["input_ids"].shape[1]]
        + weights["type_embeddings/embeddings"][inputs["segment_ids"]]
    )
    hidden = norm(hidden, "embeddings/layer_norm")
    if "embedding_projection/kernel" in weights:
        hidden = dense(hidden, "embedding_projection")
    encoder_outputs = []
    for _ in range(layers):
        query, key, value = (
            dense(hidden, f"transformer/self_attention/{name}", "bsh,hnd->bsnd")
            for name in ("query", "key", "value")
        )
        scores = np.einsum("bqnd,bknd->bnqk", query, key) / np.sqrt(query.shape[-1])
        scores += (1 - inputs["input_mask"])[:, None, None, :] * -1e9
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = np.einsum(
            "bnqk,bknd->bqnd", exponentials / exponentials.sum(axis=-1, keepdims=True), value
        )
        attended = dense(context, "transformer/self_attention/attention_output", "bsnd,ndh->bsh")
        hidden = norm(hidden + attended, "transformer/self_attention_layer_norm")
        output = dense(gelu(dense(hidden, "transformer/intermediate")), "transformer/output")
        hidden = norm(hidden + output, "transformer/output_layer_norm")
        encoder_outputs.append(hidden)
    masked = np.take_along_axis(hidden, positions[:, :, None], axis=1)
    masked = norm(gelu(dense(masked, f"{HEAD}/transform/dense")), f"{HEAD}/transform/LayerNorm")
    return {
        "sequence_output": hidden,
        "pooled_output": np.tanh(dense(hidden[:, :1], "pooler_transform")[:, 0]),
        "encoder_outputs": encoder_outputs,
        "mlm_logits": masked @ weights["word_embeddings/embeddings"].T
        + weights[f"{HEAD}/output_bias/bias"],
    }
