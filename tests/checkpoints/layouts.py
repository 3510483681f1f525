"""Models in the formats of others, under names that are written out by hand."""

import functools
import io
import json
import pathlib
import re
import zipfile

import h5py
import numpy as np
import safetensors.numpy
import tensorflow as tf

from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from tests.helpers import tiny_config

# Models by what they have on an encoder.
MODELS = {
    "encoder": lambda encoder: encoder,
    "pretrainer": AlbertPretrainer,
    "masked lm": lambda encoder: AlbertPretrainer(encoder, sentence_head=False),
    "classifier": lambda encoder: AlbertClassifier(encoder, 3, dropout=0.3),
    "token classifier": lambda encoder: AlbertTokenClassifier(encoder, 3, dropout=0.3),
    "multiple choice": lambda encoder: AlbertMultipleChoice(encoder, dropout=0.3),
    "span labeler": AlbertSpanLabeler,
    "conditional span labeler": AlbertConditionalSpanLabeler,
}

# Of each class of `transformers`, our model for it, and whether theirs has a pooler.
ARCHITECTURES = {
    f"{family}{name}": described
    for family in ("Albert", "Bert")
    for name, described in {
        "Model": ("encoder", True),
        "ForPreTraining": ("pretrainer", True),
        "ForMaskedLM": ("masked lm", False),
        "ForSequenceClassification": ("classifier", True),
        "ForTokenClassification": ("token classifier", False),
        "ForMultipleChoice": ("multiple choice", True),
        "ForQuestionAnswering": ("span labeler", False),
    }.items()
}

# Our layers and theirs. ^ is the prefix of an encoder's names, @ that of a block's, = the name before it.
_TENSORFLOW = """
ours                                 original                                   brightmart
embedding/word_embeddings            bert/embeddings/word_embeddings            =
embedding/position_embeddings        bert/embeddings/position_embeddings        =
embedding/segment_embeddings         bert/embeddings/token_type_embeddings      =
embedding/layer_norm                 bert/embeddings/LayerNorm                  =
embedding/projection                 bert/encoder/embedding_hidden_mapping_in   =
attention/query                      @/attention_1/self/query                   @/attention/self/query
attention/key                        @/attention_1/self/key                     @/attention/self/key
attention/value                      @/attention_1/self/value                   @/attention/self/value
attention/output                     @/attention_1/output/dense                 @/attention/output/dense
attention/layer_norm                 @/LayerNorm                      @/attention/output/LayerNorm
ffn/intermediate                     @/ffn_1/intermediate/dense                 @/intermediate/dense
ffn/output                           @/ffn_1/intermediate/output/dense          @/output/dense
ffn/layer_norm                       @/LayerNorm_1                              @/output/LayerNorm
pooler/dense                         bert/pooler/dense                          =
masked_lm_head/transform             cls/predictions/transform/dense            =
masked_lm_head/layer_norm            cls/predictions/transform/LayerNorm        =
masked_lm_head/output_bias           cls/predictions/output_bias                =
sentence_order_head/dense/kernel     cls/seq_relationship/output_weights        =
sentence_order_head/dense/bias       cls/seq_relationship/output_bias           =
head/dense/kernel                    output_weights                             =
head/dense/bias                      output_bias                                =
span_head/dense/kernel               cls/squad/output_weights                   =
span_head/dense/bias                 cls/squad/output_bias                      =
conditional_span_head/start_logits   start_logits/dense                         =
conditional_span_head/end_hidden     end_logits/dense_0                         =
conditional_span_head/layer_norm     end_logits/LayerNorm                       =
conditional_span_head/end_logits     end_logits/dense_1                         =
conditional_span_head/answer_hidden  answer_class/dense_0                       =
conditional_span_head/answer_logits  answer_class/dense_1                       =
"""
_HUGGING_FACE = """
ours                           albert                                   bert
embedding/word_embeddings      ^embeddings.word_embeddings.weight       =
embedding/position_embeddings  ^embeddings.position_embeddings.weight   =
embedding/segment_embeddings   ^embeddings.token_type_embeddings.weight =
embedding/layer_norm           ^embeddings.LayerNorm                    =
embedding/projection           ^encoder.embedding_hidden_mapping_in     =
attention/query                @.attention.query                        @.attention.self.query
attention/key                  @.attention.key                          @.attention.self.key
attention/value                @.attention.value                        @.attention.self.value
attention/output               @.attention.dense                        @.attention.output.dense
attention/layer_norm           @.attention.LayerNorm                    @.attention.output.LayerNorm
ffn/intermediate               @.ffn                                    @.intermediate.dense
ffn/output                     @.ffn_output                             @.output.dense
ffn/layer_norm                 @.full_layer_layer_norm                  @.output.LayerNorm
pooler/dense                   ^pooler                                  ^pooler.dense
masked_lm_head/transform       predictions.dense                        cls.predictions.transform.dense
masked_lm_head/layer_norm      predictions.LayerNorm              cls.predictions.transform.LayerNorm
masked_lm_head/output_bias     predictions.bias                         cls.predictions.bias
sentence_order_head/dense      sop_classifier.classifier                cls.seq_relationship
head/dense                     classifier                               =
token_head/dense               classifier                               =
span_head/dense                qa_outputs                               =
"""
_KERAS_HUB = """
ours                           keras_hub
embedding/word_embeddings      ^layers/reversible_embedding/vars/0
embedding/position_embeddings  ^layers/position_embedding/vars/0
embedding/segment_embeddings   ^layers/embedding/vars/0
embedding/layer_norm           ^layers/layer_normalization
embedding/projection           ^layers/dense
attention/query                @/_self_attention_layer/query_dense
attention/key                  @/_self_attention_layer/key_dense
attention/value                @/_self_attention_layer/value_dense
attention/output               @/_self_attention_layer/output_dense
attention/layer_norm           @/_self_attention_layer_norm
ffn/intermediate               @/_feedforward_intermediate_dense
ffn/output                     @/_feedforward_output_dense
ffn/layer_norm                 @/_feedforward_layer_norm
pooler/dense                   ^layers/dense_1
masked_lm_head/transform       layers/masked_lm_head/_intermediate_dense
masked_lm_head/layer_norm      layers/masked_lm_head/_intermediate_layer_norm
masked_lm_head/output_bias     layers/masked_lm_head/vars/0
head/dense                     layers/dense
"""
# Prefixes of the names in a block: {0} is the group of a half, {1} its number there, {2} the block's.
_BLOCKS = {
    "original": "bert/encoder/transformer/group_{0}/inner_group_{1}",
    "brightmart": "bert/encoder/layer_shared",
    "albert": "^encoder.albert_layer_groups.{0}.albert_layers.{1}",
    "bert": "^encoder.layer.{0}",
    "keras_hub": "^layers/transformer_encoder{2}",
}

_KERAS_ENDS = {"kernel": "kernel", "bias": "bias", "gamma": "gamma", "beta": "beta"}
_TORCH_ENDS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_NUMBERED_ENDS = {"kernel": "vars/0", "bias": "vars/1", "gamma": "vars/0", "beta": "vars/1"}


def random_model(kind, config, with_pooler=True, seed=0):
    """Returns one of `MODELS` whose weights are all random, biases too."""
    model = MODELS[kind](AlbertEncoder(config, with_pooler=with_pooler))
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(0, 0.2, weight.shape) for weight in model.weights])
    return model


def _in_their_names(model, table, column, ends, separator="/", encoder=""):
    """Yields the name in a table, the path without the model's name, and the value of each weight."""
    titles, *rows = filter(None, map(str.split, table.splitlines()))
    names = {}
    for row in rows:
        theirs = row[titles.index(column)]
        names[row[0]] = row[1] if theirs == "=" else theirs
    for weight in model.weights:
        path = weight.path.split("/", 1)[1]
        block, half, group, inner, rest = "0", "", "", "", path
        if found := re.fullmatch(r"block_(\d+)/(attention|ffn)_(\d+)_(\d+)/(.*)", path):
            block, half, group, inner, rest = found.groups()
            rest = f"{half}/{rest}"
        layer, _, end = rest.rpartition("/")
        name = names.get(rest) or f"{names[layer]}{separator}{ends[end]}"
        number = "" if block == "0" else f"_{block}"
        name = name.replace("@", _BLOCKS[column].format(group, inner, number))
        yield name.replace("^", encoder), path, np.asarray(weight)


def original_tensors(model, whose="original"):
    """Returns a model's tensors by the names of the original, or of brightmart."""
    tensors = {
        name: np.ascontiguousarray(value.T if name.endswith("output_weights") else value)
        for name, _, value in _in_their_names(model, _TENSORFLOW, whose, _KERAS_ENDS)
    }
    return tensors | {"global_step": np.zeros((), np.int64)}


def with_slots(tensors):
    """Returns the tensors of a TensorFlow 1 checkpoint of a training."""
    slots = {
        f"{name}/{slot}": np.ones_like(value)
        for name, value in tensors.items()
        if name != "global_step"
        for slot in ("adam_m", "adam_v")
    }
    return tensors | slots | {"global_step": np.int64(1234)}


@functools.cache
def brightmart_pretrainer():
    """Returns a model, and its tensors by brightmart's names with the word table as a product."""
    model = random_model("pretrainer", tiny_config(embedding_size=48))
    tensors = original_tensors(model, "brightmart")
    del tensors["global_step"]
    rng = np.random.default_rng(5)
    factors = [rng.normal(0, 1, shape).astype(np.float32) for shape in ((97, 16), (16, 48))]
    product = (factors[0].astype(np.float64) @ factors[1]).astype(np.float32)
    model.encoder.embedding.word_embeddings.assign(product)
    for name, factor in zip(("word_embeddings", "word_embeddings_2"), factors, strict=True):
        tensors[f"bert/embeddings/{name}"] = factor
    return model, tensors


def write_original(prefix, tensors):
    """Writes a checkpoint as TensorFlow 1 does."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return str(prefix)


def read_original(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


# Hugging Face

CONFIG = {
    "model_type": "albert",
    "vocab_size": 97,
    "embedding_size": 16,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_hidden_groups": 2,
    "inner_group_num": 2,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "classifier_dropout_prob": 0.3,
    "transformers_version": "5.0.0",
    "torch_dtype": "float32",
    "net_structure_type": 0,
    "_name_or_path": "someone/some-albert",
}
_ALBERTS_OWN = {
    *("embedding_size", "num_hidden_groups", "inner_group_num"),
    *("classifier_dropout_prob", "net_structure_type"),
}
BERT_CONFIG = {
    **{key: value for key, value in CONFIG.items() if key not in _ALBERTS_OWN},
    "model_type": "bert",
    "hidden_act": "gelu",
    "classifier_dropout": 0.3,
    "position_embedding_type": "absolute",
    "use_cache": True,
    "gradient_checkpointing": False,
}


def is_bert(architecture):
    return architecture.startswith("Bert")


def config_of(architecture):
    of_bert = {"embedding_size": 48, "sharing": "none", "hidden_act": "gelu_erf"}
    changes = of_bert if is_bert(architecture) else {"num_hidden_groups": 2, "inner_group_num": 2}
    return tiny_config(**changes, hidden_dropout_prob=0.1)


@functools.cache
def model_of(architecture):
    """Returns our model for an architecture, with random weights."""
    kind, with_pooler = ARCHITECTURES[architecture]
    return random_model(kind, config_of(architecture), with_pooler)


def folder_tensors(architecture, with_prefix=False):
    """Returns the tensors of `model_of`, by the names that `transformers` 5.23 gives them.

    A bare encoder has no prefix there; we write one.
    """
    bare = architecture.endswith("Model") and not with_prefix
    family = "bert" if is_bert(architecture) else "albert"
    how = (_HUGGING_FACE, family, _TORCH_ENDS, ".", "" if bare else f"{family}.")
    return {
        name: np.ascontiguousarray(value.T if path.endswith("kernel") else value)
        for name, path, value in _in_their_names(model_of(architecture), *how)
    }


def write_folder(directory, architecture, tensors=None, **changes):
    """Writes a folder; `changes` are of the config, where None takes a key away."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True)
    tensors = folder_tensors(architecture) if tensors is None else tensors
    content = safetensors.numpy.save(tensors, metadata={"format": "pt"})
    (directory / "model.safetensors").write_bytes(content)
    config = BERT_CONFIG if is_bert(architecture) else CONFIG
    config = {**config, "architectures": [architecture]}
    if architecture.endswith("Classification"):
        config["id2label"] = {"0": "no", "1": "maybe", "2": "yes"}
    config = {key: value for key, value in {**config, **changes}.items() if value is not None}
    (directory / "config.json").write_text(json.dumps(config))
    return str(directory)


def read_folder(folder):
    return safetensors.numpy.load_file(f"{folder}/model.safetensors")


def check_same_tensors(received, expected):
    assert set(received) == set(expected)
    for name, tensor in expected.items():
        assert received[name].dtype == tensor.dtype
        assert received[name].shape == tensor.shape
        assert received[name].tobytes() == tensor.tobytes(), name


# KerasHub

KERAS_HUB_CONFIG = tiny_config(
    num_hidden_layers=4,
    num_hidden_groups=2,
    inner_group_num=2,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
# What files hold in addition to weights.
NO_WEIGHTS = {
    "optimizer/vars/0": np.int64(3),
    "layers/dropout/seed_generator/seed_generator_state": np.zeros(2, np.uint32),
}


@functools.cache
def model_of_keras_hub(kind):
    return random_model(kind, KERAS_HUB_CONFIG)


def keras_hub_tensors(kind="encoder", in_task=False):
    """Returns the tensors of `model_of_keras_hub`: the backbone's, and those of the head.

    In the files of models with a head the backbone is one of the layers.
    """
    backbone, head = {}, {}
    of_backbone = "layers/albert_backbone/" if in_task else ""
    how = (_KERAS_HUB, "keras_hub", _NUMBERED_ENDS)
    names = _in_their_names(model_of_keras_hub(kind), *how, encoder=of_backbone)
    for name, path, value in names:
        # Heads (N) and head size (D) are axes of their own.
        if re.search("attention_._./(query|key|value)/", path):
            value = value.reshape(*value.shape[:-1], 4, 12)
        elif re.search("attention_._./output/kernel", path):
            value = value.reshape(4, 12, 48)
        (head if re.match("(masked_lm_)?head/", path) else backbone)[name] = value
    return backbone, head


def keras_hub_config(class_name="AlbertBackbone", **changes):
    config = {
        "name": "albert_backbone",
        "trainable": True,
        "dtype": {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}},
        "vocabulary_size": 97,
        "num_layers": 4,
        "num_heads": 4,
        "num_groups": 2,
        "num_inner_repetitions": 2,
        "embedding_dim": 16,
        "hidden_dim": 48,
        "intermediate_dim": 80,
        "dropout": 0.1,
        "max_sequence_length": 64,
        "num_segments": 2,
        **changes,
    }
    if class_name in ("AlbertTextClassifier", "AlbertMaskedLM"):
        config = {"backbone": keras_hub_config(), **changes}
    return {
        "module": f"keras_hub.src.models.{class_name}",
        "class_name": class_name,
        "config": config,
        "registered_name": f"keras_hub>{class_name}",
    }


def h5_bytes(tensors):
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for path, value in tensors.items():
            file[path] = value
    return buffer.getvalue()


def write_preset(folder, tensors, heads=None, config=None):
    """Writes a preset: weights of a backbone and, in a file of their own, of heads."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config or keras_hub_config()))
    (folder / "model.weights.h5").write_bytes(h5_bytes(tensors))
    if heads:
        (folder / "task.weights.h5").write_bytes(h5_bytes(heads))
    return str(folder)


def write_archive(path, tensors, config):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.1"}))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", h5_bytes(tensors))
    return str(path)
