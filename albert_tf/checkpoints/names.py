"""Tables from our names to those of others, and the tables of TensorFlow 1 checkpoints.

A row of a table has a pattern of our variable paths, the names that others give to the same weights, and
how their tensor's axes differ. Reading and writing use the first row that matches. Tables are without the
first component of our paths, the name of the model, which its user chooses.

The checkpoints are those of the original, https://github.com/google-research/albert, and of
https://github.com/brightmart/albert_zh, which trained Chinese models with other code before the original
was published. Some of its names differ, and so does its embedding: it multiplies `word_embeddings` (V, E)
by `word_embeddings_2` (E, H), without bias, and only then, at width H, adds positions and segments and
normalises the sum. In our terms E equals H and the word table is the product (V, H). That is exact, also
for the masked-LM head, whose logits are t (W P)^T = (t P^T) W^T.

Those of https://github.com/google-research/bert are of the same code before ALBERT: each layer has a
block of its own, and there is no projection.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from albert_tf.checkpoints.tensors import CheckpointReader, Layout, Stored
from albert_tf.config import BERT_CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.options.models import FormatName

# A pattern of our paths, and how matching variables are stored; names may refer to the pattern's groups.
Row = tuple[str, Stored]
# The ends of our paths -> those of others, and whether their tensor is the transpose.
Ends = Mapping[str, tuple[str, bool]]

_BLOCK_PART = re.compile("^(attention|ffn)/")


def read_rows(table: str) -> list[Row]:
    """Reads lines of a path, the names of its tensor or of its factors, and a T for the transpose.

    `attention/` and `ffn/` stand for any block's, with its group and its number in the group as groups of
    the pattern.
    """
    lines = filter(None, map(str.split, table.splitlines()))
    return [
        (
            "[^/]+/" + _BLOCK_PART.sub(r"block_\\d+/\1_(\\d+)_(\\d+)/", path),
            Stored(tuple(name for name in names if name != "T"), transposed="T" in names),
        )
        for path, *names in lines
    ]


def names_in(table: str) -> tuple[str, ...]:
    """Returns the names that others give in a table."""
    return tuple(name for _, stored in read_rows(table) for name in stored.names)


# Heads that others lack. Their names are ours, for our own folders and for the reports of missing keys. A
# head that only some lack has a row in the tables of the others, which come first.
OWN_HEADS = r"""
((?:token_head|conditional_span_head|replaced_token_head|generator)/.+)   \1
"""


def make_layout(table: Sequence[Row], ends: Ends, whose: str) -> Layout:
    """Returns a function that tells from a variable's path how others, `whose`, store the variable.

    A row matches a whole path, or all but its end. The rows of `OWN_HEADS` come after those of the table.
    """
    rows = [*table, *read_rows(OWN_HEADS)]

    def layout(path: str) -> Stored:
        layer, _, end = path.rpartition("/")
        for pattern, stored in rows:
            their_end, transposed = "", stored.transposed
            match = re.fullmatch(pattern, path)
            if not match and end in ends:
                their_end, transposed = ends[end]
                match = re.fullmatch(pattern, layer)
            if match:
                names = tuple(match.expand(name) + their_end for name in stored.names)
                return dataclasses.replace(stored, names=names, transposed=transposed)
        raise InputError(
            f"'{path}': {whose} checkpoints have no name for such a variable; a head of your own needs a "
            "row in OWN_HEADS of albert_tf/checkpoints/names.py"
        )

    return layout


def grouped_config(config: AlbertConfig, whose: str) -> AlbertConfig:
    """Returns the config under which others have the same layers with the same weights.

    The original and its successors share whole blocks only. Without sharing they have L groups.
    """
    if config.sharing == "all":
        return config
    layers = list(range(config.num_hidden_layers))
    grouped = dataclasses.replace(config, sharing="all", num_hidden_groups=config.num_hidden_layers)
    own = config.sharing == "none" or [config.group_of_layer(layer) for layer in layers] == layers
    if not own or [grouped.group_of_layer(layer) for layer in layers] != layers:
        raise InputError(
            f"sharing '{config.sharing}' with {config.num_hidden_layers} layers in "
            f"{config.num_hidden_groups} groups: {whose} checkpoints hold whole blocks only, shared "
            "by all layers of a group"
        )
    return grouped


SHARED, BERT_LAYER = "bert/encoder/layer_shared/", "bert/encoder/layer_0/"

_OUTER_ROWS = r"""
embedding/word_embeddings             bert/embeddings/word_embeddings
embedding/position_embeddings         bert/embeddings/position_embeddings
embedding/segment_embeddings          bert/embeddings/token_type_embeddings
embedding/layer_norm                  bert/embeddings/LayerNorm
embedding/projection                  bert/encoder/embedding_hidden_mapping_in
pooler/dense                          bert/pooler/dense
masked_lm_head/output_bias            cls/predictions/output_bias
masked_lm_head/transform              cls/predictions/transform/dense
masked_lm_head/layer_norm             cls/predictions/transform/LayerNorm
sentence_order_head/dense/kernel      cls/seq_relationship/output_weights  T
sentence_order_head/dense/bias        cls/seq_relationship/output_bias
head/dense/kernel                     output_weights  T
head/dense/bias                       output_bias
span_head/dense/kernel                cls/squad/output_weights  T
span_head/dense/bias                  cls/squad/output_bias
conditional_span_head/start_logits    start_logits/dense
conditional_span_head/end_hidden      end_logits/dense_0
conditional_span_head/layer_norm      end_logits/LayerNorm
conditional_span_head/end_logits      end_logits/dense_1
conditional_span_head/answer_hidden   answer_class/dense_0
conditional_span_head/answer_logits   answer_class/dense_1
"""
_ORIGINAL = r"""
attention/(query|key|value)           {block}attention_1/self/\3
attention/output                      {block}attention_1/output/dense
attention/layer_norm                  {block}LayerNorm
ffn/intermediate                      {block}ffn_1/intermediate/dense
ffn/output                            {block}ffn_1/intermediate/output/dense
ffn/layer_norm                        {block}LayerNorm_1
""".replace("{block}", r"bert/encoder/transformer/group_\1/inner_group_\2/")
# There are no groups and inner groups: a second one finds no row.
_BRIGHTMART = r"""
embedding/word_embeddings             bert/embeddings/word_embeddings  bert/embeddings/word_embeddings_2
block_0/attention_0_0/(query|key|value)  {block}attention/self/\1
block_0/attention_0_0/output          {block}attention/output/dense
block_0/attention_0_0/layer_norm      {block}attention/output/LayerNorm
block_0/ffn_0_0/intermediate          {block}intermediate/dense
block_0/ffn_0_0/output                {block}output/dense
block_0/ffn_0_0/layer_norm            {block}output/LayerNorm
""".replace("{block}", SHARED)
_BERT = r"""
attention/(query|key|value)           {block}attention/self/\3
attention/output                      {block}attention/output/dense
attention/layer_norm                  {block}attention/output/LayerNorm
ffn/intermediate                      {block}intermediate/dense
ffn/output                            {block}output/dense
ffn/layer_norm                        {block}output/LayerNorm
""".replace("{block}", r"bert/encoder/layer_\1/")
_ENDS = {end: (f"/{end}", False) for end in ("kernel", "bias", "gamma", "beta")}


stored_as_original, stored_as_brightmart, stored_as_bert = (
    make_layout(read_rows(table + _OUTER_ROWS), _ENDS, whose)
    for table, whose in (
        (_ORIGINAL, "the original's"),
        (_BRIGHTMART, "brightmart's"),
        (_BERT, "Google's BERT"),
    )
)


class OriginalReader(CheckpointReader):
    """Reads a checkpoint of the original."""

    format_name: FormatName = "tf1"
    description = "TensorFlow 1, the original's names"
    encoder_prefixes = ("bert/",)
    head_names = names_in(_OUTER_ROWS)
    layout = staticmethod(stored_as_original)

    def check_config(self, config: AlbertConfig) -> None:
        """Raises an `InputError` if the original has no such model."""
        grouped_config(config, "the original's")

    def is_no_weight(self, name: str) -> bool:
        """Returns whether a name is that of a number, or of any optimizer's slot of a weight."""
        return not self.shapes[name] or any(
            name[: end.start()] in self.shapes for end in re.finditer("/", name)
        )


class BrightmartReader(OriginalReader):
    """Reads a checkpoint of brightmart's."""

    format_name = "brightmart"
    description = "TensorFlow 1, brightmart's names"
    layout = staticmethod(stored_as_brightmart)

    def adapted_config(self, config: AlbertConfig) -> AlbertConfig:
        """Returns our config, whose E is H."""
        return dataclasses.replace(config, embedding_size=config.hidden_size)

    def check_config(self, config: AlbertConfig) -> None:
        """Raises an `InputError` if brightmart's code has no such model."""
        groups = grouped_config(config, "brightmart's").num_hidden_groups
        if config.embedding_size != config.hidden_size:
            raise InputError(
                f"embedding_size is {config.embedding_size}; expected {config.hidden_size}, the "
                "hidden_size, at which brightmart's models add positions and normalise"
            )
        if groups * config.inner_group_num > 1:
            raise InputError(
                f"the config has {groups} groups of {config.inner_group_num} blocks; expected one "
                "block for all layers, as in brightmart's models"
            )


class BertReader(OriginalReader):
    """Reads a checkpoint of Google's BERT."""

    format_name = "google_bert"
    description = "TensorFlow 1, BERT's names"
    layout = staticmethod(stored_as_bert)

    def check_config(self, config: AlbertConfig) -> None:
        """Raises an `InputError` if the config is not a BERT's."""
        if not config.is_bert:
            raise InputError(
                f"the config has sharing '{config.sharing}', inner_group_num {config.inner_group_num} "
                f"and embedding_size {config.embedding_size}; expected 'none', 1 and "
                f"{config.hidden_size}, a BERT's, as a file named {BERT_CONFIG_FILE} means"
            )
