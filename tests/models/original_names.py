"""From our variables to the original's: names, and which kernel lies transposed."""

import re

_RULES = [
    (r"^albert_encoder/embedding/word_embeddings$", r"bert/embeddings/word_embeddings"),
    (r"^albert_encoder/embedding/position_embeddings$", r"bert/embeddings/position_embeddings"),
    (r"^albert_encoder/embedding/segment_embeddings$", r"bert/embeddings/token_type_embeddings"),
    (r"^albert_encoder/embedding/layer_norm/(.*)$", r"bert/embeddings/LayerNorm/\1"),
    (
        r"^albert_encoder/embedding/projection/(.*)$",
        r"bert/encoder/embedding_hidden_mapping_in/\1",
    ),
    (r"^albert_encoder/pooler/dense/(.*)$", r"bert/pooler/dense/\1"),
    (r"^albert_pretrainer/masked_lm_head/output_bias$", r"cls/predictions/output_bias"),
    (r"^albert_pretrainer/masked_lm_head/transform/(.*)$", r"cls/predictions/transform/dense/\1"),
    (
        r"^albert_pretrainer/masked_lm_head/layer_norm/(.*)$",
        r"cls/predictions/transform/LayerNorm/\1",
    ),
    (
        r"^albert_pretrainer/sentence_order_head/dense/kernel$",
        r"cls/seq_relationship/output_weights",
    ),
    (r"^albert_pretrainer/sentence_order_head/dense/bias$", r"cls/seq_relationship/output_bias"),
]
_BLOCK = r"^albert_encoder/block_\d+/(attention|ffn)_(\d+)_(\d+)/(.*)$"
_BLOCK_RULES = [
    (r"^attention/output/(.*)$", r"attention_1/output/dense/\1"),
    (r"^attention/(query|key|value)/(.*)$", r"attention_1/self/\1/\2"),
    (r"^attention/layer_norm/(.*)$", r"LayerNorm/\1"),
    (r"^ffn/intermediate/(.*)$", r"ffn_1/intermediate/dense/\1"),
    (r"^ffn/output/(.*)$", r"ffn_1/intermediate/output/dense/\1"),
    (r"^ffn/layer_norm/(.*)$", r"LayerNorm_1/\1"),
]


TRANSPOSED = "cls/seq_relationship/output_weights"


def from_original(name, array):
    """Returns an array of the original's in the orientation of ours."""
    return array.T if name == TRANSPOSED else array


def original_name(path):
    """Returns the original's name of a variable."""
    block = re.match(_BLOCK, path)
    if block:
        half, group, inner, rest = block.groups()
        name = _apply(_BLOCK_RULES, f"{half}/{rest}")
        return f"bert/encoder/transformer/group_{group}/inner_group_{inner}/{name}"
    return _apply(_RULES, path)


def _apply(rules, path):
    for pattern, replacement in rules:
        if re.match(pattern, path):
            return re.sub(pattern, replacement, path)
    raise KeyError(path)
