"""Tables from our names to those of others, and the tables of TensorFlow 1 checkpoints.

A row of a table has a pattern of our variable paths, the names that others give to the same weights, and
how their tensor's axes differ. Reading and writing use the first row that matches. The first component of
our paths is the name of the model, which its user chooses.

The checkpoints are those of the original, https://github.com/google-research/albert, and of
https://github.com/brightmart/albert_zh, which trained Chinese models with other code before the original
was published. Some of its names differ, and so does its embedding: it multiplies `word_embeddings` (V, E)
by `word_embeddings_2` (E, H), without bias, and only then, at width H, adds positions and segments and
normalises the sum. In our terms E equals H and the word table is the product (V, H). That is exact, also
for the masked-LM head, whose logits are t (W P)^T = (t P^T) W^T.
"""

import dataclasses
import re
from collections.abc import Sequence

from albert_tf.checkpoints.tensor_files import Layout, Stored, TensorReader
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

MODEL = r"[^/]+/"
ATTENTION = rf"{MODEL}block_\d+/attention_(\d+)_(\d+)/"
FEED_FORWARD = rf"{MODEL}block_\d+/ffn_(\d+)_(\d+)/"

# A pattern of our paths, and how matching variables are stored; names may refer to the pattern's groups.
Row = tuple[str, Stored]


def row(pattern: str, *names: str, transposed: bool = False, merged_axis: int | None = None) -> Row:
    """Returns a row; for the arguments see `Stored`."""
    return pattern, Stored(names, transposed, merged_axis)


def make_layout(rows: Sequence[Row], whose: str) -> Layout:
    """Returns a function from a variable's path to how others store it, given their table.

    The function raises an `InputError` if no row matches; `whose` says who the others are.
    """

    def layout(path: str) -> Stored:
        for pattern, stored in rows:
            if match := re.fullmatch(pattern, path):
                names = tuple(match.expand(name) for name in stored.names)
                return dataclasses.replace(stored, names=names)
        raise InputError(f"'{path}': {whose} checkpoints have no name for such a variable")

    return layout


def in_groups(config: AlbertConfig, whose: str) -> AlbertConfig:
    """Returns the config under which others have the same layers with the same weights.

    The original and its successors share whole blocks only. Without sharing they have L groups.

    Args:
        config: ours.
        whose: who the others are, for the message.
    """
    if config.sharing == "all":
        return config
    layers = list(range(config.num_hidden_layers))
    there = dataclasses.replace(config, sharing="all", num_hidden_groups=config.num_hidden_layers)
    own = config.sharing == "none" or [config.group_of_layer(layer) for layer in layers] == layers
    if not own or [there.group_of_layer(layer) for layer in layers] != layers:
        raise InputError(
            f"sharing '{config.sharing}' with {config.num_hidden_layers} layers in "
            f"{config.num_hidden_groups} groups: {whose} checkpoints hold whole blocks only, shared "
            "by all layers of a group"
        )
    return there


_INNER_GROUP = r"bert/encoder/transformer/group_\1/inner_group_\2/"
_CONDITIONAL = MODEL + r"conditional_span_head/"
_SHARED = r"bert/encoder/layer_shared/"

_AROUND_THE_BLOCKS = [
    row(MODEL + r"embedding/word_embeddings", r"bert/embeddings/word_embeddings"),
    row(MODEL + r"embedding/position_embeddings", r"bert/embeddings/position_embeddings"),
    row(MODEL + r"embedding/segment_embeddings", r"bert/embeddings/token_type_embeddings"),
    row(MODEL + r"embedding/layer_norm/(.+)", r"bert/embeddings/LayerNorm/\1"),
    row(MODEL + r"embedding/projection/(.+)", r"bert/encoder/embedding_hidden_mapping_in/\1"),
    row(MODEL + r"pooler/dense/(.+)", r"bert/pooler/dense/\1"),
    row(MODEL + r"masked_lm_head/output_bias", r"cls/predictions/output_bias"),
    row(MODEL + r"masked_lm_head/transform/(.+)", r"cls/predictions/transform/dense/\1"),
    row(MODEL + r"masked_lm_head/layer_norm/(.+)", r"cls/predictions/transform/LayerNorm/\1"),
    row(
        MODEL + r"sentence_order_head/dense/kernel",
        r"cls/seq_relationship/output_weights",
        transposed=True,
    ),
    row(MODEL + r"sentence_order_head/dense/bias", r"cls/seq_relationship/output_bias"),
    row(MODEL + r"head/dense/kernel", r"output_weights", transposed=True),
    row(MODEL + r"head/dense/bias", r"output_bias"),
    # The original has no such heads; these names serve the report of missing keys.
    row(MODEL + r"((?:embedding_head|token_head)/.+)", r"\1"),
    row(MODEL + r"span_head/dense/kernel", r"cls/squad/output_weights", transposed=True),
    row(MODEL + r"span_head/dense/bias", r"cls/squad/output_bias"),
    row(_CONDITIONAL + r"start_logits/(.+)", r"start_logits/dense/\1"),
    row(_CONDITIONAL + r"end_hidden/(.+)", r"end_logits/dense_0/\1"),
    row(_CONDITIONAL + r"layer_norm/(.+)", r"end_logits/LayerNorm/\1"),
    row(_CONDITIONAL + r"end_logits/(.+)", r"end_logits/dense_1/\1"),
    row(_CONDITIONAL + r"answer_hidden/(.+)", r"answer_class/dense_0/\1"),
    row(_CONDITIONAL + r"answer_logits/(.+)", r"answer_class/dense_1/\1"),
]
_ORIGINAL = [
    *_AROUND_THE_BLOCKS,
    row(ATTENTION + r"(query|key|value)/(.+)", _INNER_GROUP + r"attention_1/self/\3/\4"),
    row(ATTENTION + r"output/(.+)", _INNER_GROUP + r"attention_1/output/dense/\3"),
    row(ATTENTION + r"layer_norm/(.+)", _INNER_GROUP + r"LayerNorm/\3"),
    row(FEED_FORWARD + r"intermediate/(.+)", _INNER_GROUP + r"ffn_1/intermediate/dense/\3"),
    row(FEED_FORWARD + r"output/(.+)", _INNER_GROUP + r"ffn_1/intermediate/output/dense/\3"),
    row(FEED_FORWARD + r"layer_norm/(.+)", _INNER_GROUP + r"LayerNorm_1/\3"),
]
# There are no groups and inner groups: a second one finds no row.
_BRIGHTMART = [
    row(
        MODEL + r"embedding/word_embeddings",
        r"bert/embeddings/word_embeddings",
        r"bert/embeddings/word_embeddings_2",
    ),
    *_AROUND_THE_BLOCKS,
    row(
        MODEL + r"block_0/attention_0_0/(query|key|value)/(.+)",
        _SHARED + r"attention/self/\1/\2",
    ),
    row(MODEL + r"block_0/attention_0_0/output/(.+)", _SHARED + r"attention/output/dense/\1"),
    row(
        MODEL + r"block_0/attention_0_0/layer_norm/(.+)",
        _SHARED + r"attention/output/LayerNorm/\1",
    ),
    row(MODEL + r"block_0/ffn_0_0/intermediate/(.+)", _SHARED + r"intermediate/dense/\1"),
    row(MODEL + r"block_0/ffn_0_0/output/(.+)", _SHARED + r"output/dense/\1"),
    row(MODEL + r"block_0/ffn_0_0/layer_norm/(.+)", _SHARED + r"output/LayerNorm/\1"),
]


stored_as_original = make_layout(_ORIGINAL, "the original's")
stored_as_brightmart = make_layout(_BRIGHTMART, "brightmart's")


def is_original(reader: TensorReader) -> bool:
    """Returns whether a checkpoint is the original's, or brightmart's."""
    return any(name.startswith("bert/") for name in reader.shapes)


def is_brightmart(reader: TensorReader) -> bool:
    """Returns whether a checkpoint is brightmart's."""
    return any(name.startswith(_SHARED) for name in reader.shapes)


def is_no_weight(name: str) -> bool:
    """Returns whether a name is a slot of the original's optimizers or the step."""
    return name == "global_step" or name.endswith(("/adam_m", "/adam_v"))


def config_in_original(config: AlbertConfig) -> AlbertConfig:
    """Returns the config under which the original has the same model."""
    if config.hidden_act == "gelu_erf":
        raise InputError("hidden_act 'gelu_erf': the original's gelu is the tanh form, 'gelu' here")
    return in_groups(config, "the original's")


def config_of_brightmart(config: AlbertConfig) -> AlbertConfig:
    """Returns our config for a model of brightmart's."""
    return dataclasses.replace(config, embedding_size=config.hidden_size)


def check_brightmart_config(config: AlbertConfig) -> None:
    """Raises an `InputError` if brightmart's code has no such model."""
    groups = in_groups(config, "brightmart's").num_hidden_groups
    if config.embedding_size != config.hidden_size:
        raise InputError(
            f"embedding_size is {config.embedding_size}; expected {config.hidden_size}, the hidden_size, "
            "at which brightmart's models add positions and normalise"
        )
    if groups * config.inner_group_num > 1:
        raise InputError(
            f"the config has {groups} groups of {config.inner_group_num} blocks; expected one block "
            "for all layers, as in brightmart's models"
        )
