"""KerasHub's models: their files, and a table from our names to theirs. KerasHub itself is not needed.

`AlbertBackbone`, `AlbertTextClassifier` and `AlbertMaskedLM` of https://github.com/keras-team/keras-hub
come as presets: folders with `config.json`, `model.weights.h5` and, for heads, `task.json` and
`task.weights.h5`.

Keras names the tensors in these files by the classes of the layers, counted, and not by their names.
Kernels and biases of the attention keep heads and head size apart: (H, N, D), (N, D), (N, D, H). The
reader joins them.
"""

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import h5py
import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.accounting import account_for, is_keras_hub, shown
from albert_tf.checkpoints.hugging_face import ProblemType
from albert_tf.checkpoints.names import grouped_config, make_layout, names_in, read_rows
from albert_tf.checkpoints.tensors import TensorReader
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, name_place
from albert_tf.known_files import KERAS_HUB
from albert_tf.model_folder import CONFIG_FILE, ModelFolder
from albert_tf.options import check_layout

_WEIGHTS_FILE, _HEAD_FILE = "model.weights.h5", "task.weights.h5"
_TASK_FILE = "task.json"  # older presets have its content in `config.json`

_BACKBONE_CLASS = "AlbertBackbone"
_CLASSIFIERS = ("AlbertTextClassifier", "AlbertClassifier")
_TASK_CLASSES = (*_CLASSIFIERS, "AlbertMaskedLM")
# The activations of a classifier's logits -> the meaning of its outputs. Whether those of `linear` are
# classes or a score, their number tells.
_PROBLEM_TYPES: Mapping[str, ProblemType | None] = {
    "linear": None,
    "softmax": "single_label_classification",
    "sigmoid": "multi_label_classification",
}
# Ours -> theirs. `gelu` is the tanh form, layers share whole blocks.
_CONFIG_KEYS = {
    "vocab_size": "vocabulary_size",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "embedding_size": "embedding_dim",
    "num_hidden_groups": "num_groups",
    "inner_group_num": "num_inner_repetitions",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "dropout",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
}

# In the names of our table, as in the files of models with a head.
_BACKBONE = "albert_backbone/"
_BLOCK = "transformer_encoder"
_ENDS = {
    "kernel": ("/0", False),
    "bias": ("/1", False),
    "gamma": ("/0", False),
    "beta": ("/1", False),
}
# KerasHub has no heads as in the last line; these names serve the report of missing keys.
_OUTER_ROWS = r"""
embedding/word_embeddings        {backbone}reversible_embedding/0
embedding/position_embeddings    {backbone}position_embedding/0
embedding/segment_embeddings     {backbone}embedding/0
embedding/layer_norm             {backbone}layer_normalization
embedding/projection             {backbone}dense
pooler/dense                     {backbone}dense_1
masked_lm_head/output_bias       masked_lm_head/0
masked_lm_head/transform         masked_lm_head/_intermediate_dense
masked_lm_head/layer_norm        masked_lm_head/_intermediate_layer_norm
head/dense                       dense
(sentence_order_head|span_head)/dense  \1
""".replace("{backbone}", _BACKBONE)
_BLOCK_ROWS = r"""
{ours}/attention_\d+_\d+/query       {theirs}/_self_attention_layer/query_dense
{ours}/attention_\d+_\d+/key         {theirs}/_self_attention_layer/key_dense
{ours}/attention_\d+_\d+/value       {theirs}/_self_attention_layer/value_dense
{ours}/attention_\d+_\d+/output      {theirs}/_self_attention_layer/output_dense
{ours}/attention_\d+_\d+/layer_norm  {theirs}/_self_attention_layer_norm
{ours}/ffn_\d+_\d+/intermediate      {theirs}/_feedforward_intermediate_dense
{ours}/ffn_\d+_\d+/output            {theirs}/_feedforward_output_dense
{ours}/ffn_\d+_\d+/layer_norm        {theirs}/_feedforward_layer_norm
"""
_TABLE = _OUTER_ROWS + "".join(
    _BLOCK_ROWS.replace("{ours}", f"block_{ours}").replace("{theirs}", _BACKBONE + theirs)
    # The first layer of a class has no number.
    for ours, theirs in (("0", _BLOCK), (r"(\d+)", rf"{_BLOCK}_\1"))
)


def _is_no_weight(name: str) -> bool:
    """Returns whether a tensor is the optimizer's, or the state of a random generator."""
    return name.startswith("optimizer/") or "seed_generator" in name


def config_from_dict(values: Mapping[str, Any]) -> AlbertConfig:
    """Returns the config of an encoder from the content of KerasHub's `config.json`."""
    account_for(values, KERAS_HUB)
    name, config = values.get("class_name"), values.get("config")
    if name in _TASK_CLASSES and isinstance(config, Mapping):
        account_for(config, KERAS_HUB, "config")
        backbone = config.get("backbone")
        return config_from_dict(backbone if isinstance(backbone, Mapping) else {})
    if name != _BACKBONE_CLASS or not isinstance(config, Mapping):
        raise InputError(
            f"class_name is {name!r}; of KerasHub's models only "
            f"{', '.join((_BACKBONE_CLASS, *_TASK_CLASSES))} can be read"
        )
    account_for(config, KERAS_HUB, "config")
    missing = [theirs for theirs in _CONFIG_KEYS.values() if theirs not in config]
    if missing:
        raise InputError(f"key '{missing[0]}' is missing in the config of {name}")
    return AlbertConfig(**{ours: config[theirs] for ours, theirs in _CONFIG_KEYS.items()})


class ClassifierTask(NamedTuple):
    """How the preset of a classifier treats texts and outputs.

    Attributes:
        problem_type: the meaning of its outputs, if its activation tells.
        max_seq_length: the number of tokens to which its preprocessor truncates texts; None without one.
    """

    problem_type: ProblemType | None = None
    max_seq_length: int | None = None


def read_task(folder: ModelFolder) -> ClassifierTask:
    """Returns what the preset of a classifier says; raises an `InputError` if it is of another task."""
    if folder.holds(_TASK_FILE):
        path = os.path.join(folder.path, _TASK_FILE)
        values = files.read_json(path)
    else:
        path, values = folder.config_file, folder.values
        if values.get("class_name") == _BACKBONE_CLASS:
            return ClassifierTask()
    account_for(values, KERAS_HUB, path)
    if values.get("class_name") not in _CLASSIFIERS:
        raise InputError(
            f"{path}: class_name is {shown(values.get('class_name'))}, and the weights are those of a "
            f"classifier; expected {' or '.join(_CLASSIFIERS)}"
        )
    config = account_for(values.get("config"), KERAS_HUB, f"{path}: config")
    preprocessor, length = config.get("preprocessor"), None
    if preprocessor is not None:
        place = "config.preprocessor"
        account_for(preprocessor, KERAS_HUB, f"{path}: {place}")
        check_layout(preprocessor, {"config": {"sequence_length?": int | None}}, path, place)
        account_for(preprocessor["config"], KERAS_HUB, f"{path}: {place}.config")
        length = preprocessor["config"].get("sequence_length")
    return ClassifierTask(_PROBLEM_TYPES[config.get("activation") or "linear"], length)


# What h5py raises for damaged files.
_DAMAGES = (EOFError, KeyError, OSError, RuntimeError, TypeError, ValueError)


def is_preset(folder: ModelFolder) -> bool:
    """Returns whether a folder is a preset of KerasHub with weights."""
    is_complete = all(map(folder.holds, (CONFIG_FILE, _WEIGHTS_FILE)))
    return is_complete and is_keras_hub(folder.values)


class KerasHubReader(TensorReader):
    """Reads the weights of a preset, as float32."""

    format_name = "keras_hub"
    description = "KerasHub"
    encoder_prefixes = (_BACKBONE,)
    head_names = names_in(_OUTER_ROWS)
    is_no_weight = staticmethod(_is_no_weight)
    layout = staticmethod(make_layout(read_rows(_TABLE), _ENDS, "KerasHub's"))

    def __init__(self, folder: ModelFolder):
        with name_place(folder.config_file):
            self.config = config_from_dict(folder.values)
        tensors: dict[str, np.ndarray] = {}
        for name in filter(folder.holds, (_WEIGHTS_FILE, _HEAD_FILE)):
            path = os.path.join(folder.path, name)
            tensors |= _read_weights(files.read_bytes(path), path)
        super().__init__(folder.path, tensors)

    def check_config(self, config: AlbertConfig) -> None:
        """Raises an `InputError` if a config is of another model than the files, or one they cannot hold.

        Dropout rates and initial values may differ, and the number of layers that share all weights.
        """
        grouped = grouped_config(config, "KerasHub's")
        if grouped.hidden_act != "gelu":
            raise InputError(
                f"hidden_act is {grouped.hidden_act!r}; KerasHub's models have only 'gelu'"
            )
        layers, groups = grouped.num_hidden_layers, grouped.num_hidden_groups
        # KerasHub applies the groups sequentially, each equally often.
        order = [layer * groups // layers for layer in range(layers)]
        if layers % groups or order != [grouped.group_of_layer(layer) for layer in range(layers)]:
            raise InputError(f"{layers} layers in {groups} groups: KerasHub has no such model")
        for ours, theirs in _CONFIG_KEYS.items():
            expected, received = getattr(self.config, ours), getattr(grouped, ours)
            is_free = ours.endswith("_prob") or (ours == "num_hidden_layers" and groups == 1)
            if not is_free and received != expected:
                raise InputError(
                    f"{theirs} is {expected!r} there; the model's config has {ours} {received!r}"
                )


@contextlib.contextmanager
def _open_h5(content: bytes) -> Iterator[h5py.File]:
    """Opens an HDF5 file; raises an `InputError` if it is damaged, also while it is read."""
    try:
        with h5py.File(io.BytesIO(content)) as file:
            yield file
    except InputError:
        raise
    except _DAMAGES as error:
        raise InputError(f"the file is damaged: {files.reason(error)}") from error


def _read_weights(content: bytes, path: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a file; `layers` and `vars`, which say nothing, are left out of names."""
    tensors = {}

    def visit(place: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            name = "/".join(part for part in place.split("/") if part not in ("layers", "vars"))
            value = np.asarray(item)
            if not _is_no_weight(name):
                value = _join_heads(_as_float32(value, item.attrs, name), name)
            tensors[name] = value

    with name_place(path), _open_h5(content) as file:
        file.visititems(visit)
    if any(name.startswith(f"{_BLOCK}/") for name in tensors):
        tensors = {
            name if _is_no_weight(name) else _BACKBONE + name: tensor
            for name, tensor in tensors.items()
        }
    is_encoder = any(f"{_BLOCK}/" in name for name in tensors)
    # Their BERT has no projection after the embeddings, and so one dense layer less.
    if is_encoder and f"{_BACKBONE}dense_1/0" not in tensors:
        raise InputError(f"{path}: holds another model of KerasHub than {_BACKBONE_CLASS}")
    return tensors


def _as_float32(value: np.ndarray, attributes: Mapping[str, Any], name: str) -> np.ndarray:
    if attributes.get("dtype") == "bfloat16":
        value = value.view(tf.bfloat16.as_numpy_dtype)
    elif value.dtype.kind != "f":
        raise InputError(f"'{name}' is of type {value.dtype}; a quantized model cannot be read")
    return value.astype(np.float32)


def _join_heads(value: np.ndarray, name: str) -> np.ndarray:
    """Makes one axis of the heads and the head size of the attention's tensors."""
    if "_self_attention_layer/" not in name or value.ndim < 2:
        return value
    if "/output_dense/" in name:
        return value.reshape(-1, value.shape[-1])
    return value.reshape(*value.shape[:-2], -1)
