"""Encoders of TF Hub and Kaggle: a table from our names to those in TensorFlow 2 SavedModels.

TensorFlow's Model Garden makes models such as `albert_en_base` (`AlbertEncoder` and `export_model` of
`official/nlp` in https://github.com/tensorflow/models). `variables/variables` stores their variables
under numbered keys (`variables/7/.ATTRIBUTES/VARIABLE_VALUE`), which shift if E == H, as there is no
projection. Other paths through the graph of objects are numbered and shift, too. So we use the names that
the variables were created with; the graph of objects has them, and they do not depend on the sizes.

Kernels and biases of the attention keep heads and head size apart: (H, N, D), (N, D), (N, D, H).
"""

import collections

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf.checkpoints import names
from albert_tf.checkpoints.tensor_files import CheckpointReader
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

# Key of the graph of objects in a checkpoint.
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

# Parts of names that changed between the library's releases since 2020, and their form in our table.
_RENAMED = {
    "transformer/self_attention_output/": "transformer/self_attention/attention_output/",
    "bert/cls/predictions/": "cls/predictions/",
}


def _row(pattern: str, name: str, merged_axis: int | None = None) -> names.Row:
    return names.row(names.MODEL + pattern, name, merged_axis=merged_axis)


_SELF_ATTENTION = r"transformer/self_attention/"
# All layers share one block: a second one finds no row.
_ROWS = [
    _row(r"embedding/word_embeddings", r"word_embeddings/embeddings"),
    _row(r"embedding/position_embeddings", r"position_embedding/embeddings"),
    _row(r"embedding/segment_embeddings", r"type_embeddings/embeddings"),
    _row(r"embedding/layer_norm/(.+)", r"embeddings/layer_norm/\1"),
    _row(r"embedding/projection/(.+)", r"embedding_projection/\1"),
    _row(r"block_0/attention_0_0/(query|key|value)/kernel", _SELF_ATTENTION + r"\1/kernel", 1),
    _row(r"block_0/attention_0_0/(query|key|value)/bias", _SELF_ATTENTION + r"\1/bias", 0),
    _row(r"block_0/attention_0_0/output/kernel", _SELF_ATTENTION + r"attention_output/kernel", 0),
    _row(r"block_0/attention_0_0/output/bias", _SELF_ATTENTION + r"attention_output/bias"),
    _row(r"block_0/attention_0_0/layer_norm/(.+)", r"transformer/self_attention_layer_norm/\1"),
    _row(r"block_0/ffn_0_0/(intermediate|output)/(.+)", r"transformer/\1/\2"),
    _row(r"block_0/ffn_0_0/layer_norm/(.+)", r"transformer/output_layer_norm/\1"),
    _row(r"pooler/dense/(.+)", r"pooler_transform/\1"),
    _row(r"masked_lm_head/output_bias", r"cls/predictions/output_bias/bias"),
    _row(r"masked_lm_head/transform/(.+)", r"cls/predictions/transform/dense/\1"),
    _row(r"masked_lm_head/layer_norm/(.+)", r"cls/predictions/transform/LayerNorm/\1"),
    # The Model Garden exports no such heads; these names serve the report of missing keys.
    _row(
        r"(sentence_order_head|head|span_head|token_head|exit_head_\d+)/dense/(.+)", r"\1/dense/\2"
    ),
    _row(r"((?:conditional_span_head|embedding_head)/.+)", r"\1"),
]
# Its first axis counts the heads.
_HEADS = _SELF_ATTENTION + "query/bias"


stored_in_hub = names.make_layout(_ROWS, "TF Hub's")


def is_hub_encoder(reader: CheckpointReader) -> bool:
    """Returns whether a checkpoint is of an ALBERT encoder of TF Hub; BERT has no shared block."""
    return _HEADS in reader.shapes


def check_hub_config(config: AlbertConfig, reader: CheckpointReader) -> None:
    """Raises an `InputError` if an encoder of TF Hub cannot have this config.

    The number of layers and the activation do not show in its variables: the config decides.
    """
    blocks = config.num_hidden_groups * config.inner_group_num
    if config.sharing != "all" or blocks != 1:
        raise InputError(
            f"the config has sharing '{config.sharing}' and {config.num_hidden_groups} groups of "
            f"{config.inner_group_num} blocks; expected sharing 'all' and one block"
        )
    shape = reader.shapes[_HEADS]
    if shape[0] != config.num_attention_heads:
        raise InputError(
            f"num_attention_heads is {config.num_attention_heads}; expected {shape[0]}, as "
            f"'{_HEADS}' has shape {shape}"
        )


class NamedVariables:
    """Reads a checkpoint of objects under the names that its variables were created with.

    Args:
        prefix: prefix of the names of its files.
    """

    def __init__(self, prefix: str):
        self._reader = tf.train.load_checkpoint(prefix)
        self._keys = self._find_keys()

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Returns the shapes by name."""
        shapes = self._reader.get_variable_to_shape_map()
        return {name: shapes[key] for name, key in self._keys.items()}

    def get_tensor(self, name: str) -> np.ndarray:
        """Returns a variable's value."""
        return self._reader.get_tensor(self._keys[name])

    def _find_keys(self) -> dict[str, str]:
        """Returns the key of each variable by its name."""
        present = self._reader.get_variable_to_shape_map()
        if _OBJECT_GRAPH not in present:
            # In TensorFlow 1 the keys are the names.
            return {key: key for key in present}
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            self._reader.get_tensor(_OBJECT_GRAPH)
        )
        named = [
            (_name_in_table(attribute.full_name), attribute.checkpoint_key)
            for node in graph.nodes
            for attribute in node.attributes
            if attribute.checkpoint_key in present
        ]
        count = collections.Counter(name for name, _ in named)
        # A name that two variables share identifies neither.
        return {name: key for name, key in named if count[name] == 1}


def _name_in_table(name: str) -> str:
    for old, new in _RENAMED.items():
        name = name.replace(old, new)
    return name
