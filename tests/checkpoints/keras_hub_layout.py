"""The files of KerasHub's models, written from the names and shapes of real ones."""

import io
import json
import zipfile

import h5py
import numpy as np

# The masked-LM head's variables.
HEAD = "masked_lm_head"

BACKBONE = "layers/albert_backbone/"

# Names in words -> names in KerasHub's files.
_KERAS_HUB = {
    "word_embeddings/embeddings": "layers/reversible_embedding/vars/0",
    "position_embedding/embeddings": "layers/position_embedding/vars/0",
    "type_embeddings/embeddings": "layers/embedding/vars/0",
    "embeddings/layer_norm": "layers/layer_normalization",
    "embedding_projection": "layers/dense",
    "transformer/self_attention/attention_output": "{block}/_self_attention_layer/output_dense",
    "transformer/self_attention_layer_norm": "{block}/_self_attention_layer_norm",
    "transformer/intermediate": "{block}/_feedforward_intermediate_dense",
    "transformer/output_layer_norm": "{block}/_feedforward_layer_norm",
    "transformer/output": "{block}/_feedforward_output_dense",
    "pooler_transform": "layers/dense_1",
    f"{HEAD}/output_bias/bias": "layers/masked_lm_head/vars/0",
    f"{HEAD}/transform/dense": "layers/masked_lm_head/_intermediate_dense",
    f"{HEAD}/transform/LayerNorm": "layers/masked_lm_head/_intermediate_layer_norm",
    **{
        f"transformer/self_attention/{name}": f"{{block}}/_self_attention_layer/{name}_dense"
        for name in ("query", "key", "value")
    },
}
_ENDS = {"kernel": "vars/0", "bias": "vars/1", "gamma": "vars/0", "beta": "vars/1"}


def model_tensors():
    """Returns random tensors of a masked-language model by the names in `_KERAS_HUB`."""
    shapes = {
        "word_embeddings/embeddings": (97, 16),
        "position_embedding/embeddings": (64, 16),
        "type_embeddings/embeddings": (2, 16),
        "embeddings/layer_norm/gamma": (16,),
        "embeddings/layer_norm/beta": (16,),
        "embedding_projection/kernel": (16, 48),
        "embedding_projection/bias": (48,),
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
        f"{HEAD}/transform/dense/kernel": (48, 16),
        f"{HEAD}/transform/dense/bias": (16,),
        f"{HEAD}/transform/LayerNorm/gamma": (16,),
        f"{HEAD}/transform/LayerNorm/beta": (16,),
    }
    rng = np.random.default_rng(16)
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def model_outputs(tensors, inputs, positions, layers):
    """Returns what such a model computes, in float64 NumPy, each head along an axis of its own."""
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
    hidden = dense(hidden, "embedding_projection")
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
    masked = np.take_along_axis(hidden, positions[:, :, None], axis=1)
    masked = norm(gelu(dense(masked, f"{HEAD}/transform/dense")), f"{HEAD}/transform/LayerNorm")
    return {
        "sequence_output": hidden,
        "pooled_output": np.tanh(dense(hidden[:, :1], "pooler_transform")[:, 0]),
        "mlm_logits": masked @ weights["word_embeddings/embeddings"].T
        + weights[f"{HEAD}/output_bias/bias"],
    }


def keras_hub_name(plain_name, block=0):
    """Returns the name in KerasHub's files for a name of `model_tensors`."""
    name = _KERAS_HUB.get(plain_name)
    if name is None:
        layer, end = plain_name.rsplit("/", 1)
        name = f"{_KERAS_HUB[layer]}/{_ENDS[end]}"
    return name.format(block="layers/transformer_encoder" + (f"_{block}" if block else ""))


def backbone_config(class_name="AlbertBackbone", **changes):
    """Returns the `config.json` of a preset for two layers of `tests.helpers.tiny_config()`."""
    config = {
        "name": "albert_backbone",
        "trainable": True,
        "dtype": {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}},
        "vocabulary_size": 97,
        "num_layers": 2,
        "num_heads": 4,
        "num_groups": 1,
        "num_inner_repetitions": 1,
        "embedding_dim": 16,
        "hidden_dim": 48,
        "intermediate_dim": 80,
        "dropout": 0.1,
        "max_sequence_length": 64,
        "num_segments": 2,
        **changes,
    }
    return {
        "module": f"keras_hub.src.models.{class_name}",
        "class_name": class_name,
        "config": config,
        "registered_name": f"keras_hub>{class_name}",
    }


def task_config(class_name, **more):
    """Returns the config of a model with a head."""
    return {**backbone_config(class_name), "config": {"backbone": backbone_config(), **more}}


def h5_bytes(tensors):
    """Returns the content of an HDF5 file with these tensors, by path."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for path, value in tensors.items():
            file[path] = value
    return buffer.getvalue()


def in_task(tensors):
    """Returns the tensors of a backbone as the files of a model with a head name them."""
    return {BACKBONE + path: value for path, value in tensors.items()}


def write_preset(folder, tensors, heads=None, config=None):
    """Writes a preset: weights of a backbone and, in a file of their own, of heads."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config or backbone_config()))
    (folder / "model.weights.h5").write_bytes(h5_bytes(tensors))
    if heads:
        (folder / "task.weights.h5").write_bytes(h5_bytes(heads))
    return str(folder)


def write_archive(path, tensors, config):
    """Writes a `.keras` file."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.1"}))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", h5_bytes(tensors))
    return str(path)
