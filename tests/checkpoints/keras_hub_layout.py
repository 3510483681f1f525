"""The files of KerasHub's models, written from the names and shapes of real ones."""

import io
import json
import zipfile

import h5py

from tests.conversion.hub_layout import HEAD

BACKBONE = "layers/albert_backbone/"

# Names of TF Hub's library, whose tensors have the same shapes -> names in KerasHub's files.
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


def keras_hub_name(hub_name, block=0):
    """Returns the name in KerasHub's files for a name of `hub_tensors`."""
    name = _KERAS_HUB.get(hub_name)
    if name is None:
        layer, end = hub_name.rsplit("/", 1)
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
