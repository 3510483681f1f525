"""Models in the formats of others.

Their names are those of our tables, which published lists, reference checkpoints and, in
`make test-parity`, the other libraries decide.
"""

import functools
import io
import json
import pathlib
import re

import h5py
import numpy as np
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints.hugging_face import layout_of
from albert_tf.checkpoints.keras_hub import KerasHubReader
from albert_tf.checkpoints.names import (
    stored_as_bert,
    stored_as_brightmart,
    stored_as_original,
)
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


def random_model(kind, config, with_pooler=True, seed=0):
    """Returns one of `MODELS` whose weights are all random, biases too."""
    model = MODELS[kind](AlbertEncoder(config, with_pooler=with_pooler))
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(0, 0.2, weight.shape) for weight in model.weights])
    return model


def _in_their_names(model, layout):
    """Yields the name, the path and the value that a format has for each weight."""
    for weight in model.weights:
        stored = layout(weight.path)
        value = np.asarray(weight)
        value = value.T if stored.transposed else value
        yield stored.names[0], weight.path, np.ascontiguousarray(value)


def original_tensors(model, layout=stored_as_original):
    """Returns a model's tensors by the names of the original, or of another layout."""
    tensors = {name: value for name, _, value in _in_their_names(model, layout)}
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
    tensors = original_tensors(model, stored_as_brightmart)
    del tensors["global_step"]
    rng = np.random.default_rng(5)
    factors = [rng.normal(0, 1, shape).astype(np.float32) for shape in ((97, 16), (16, 48))]
    product = (factors[0].astype(np.float64) @ factors[1]).astype(np.float32)
    model.encoder.embedding.word_embeddings.assign(product)
    for name, factor in zip(("word_embeddings", "word_embeddings_2"), factors, strict=True):
        tensors[f"bert/embeddings/{name}"] = factor
    return model, tensors


BERT_KEYS = (
    "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act"
)


def write_google_bert(folder, model):
    """Writes a BERT as Google's archives hold it, with a vocabulary of letters that keeps case."""
    folder.mkdir(parents=True)
    write_original(folder / "bert_model.ckpt", original_tensors(model, stored_as_bert))
    config = getattr(model, "encoder", model).config.to_dict()
    keys = [*BERT_KEYS.split(), "max_position_embeddings", "type_vocab_size", "initializer_range"]
    config = {key: config[key] for key in keys} | {"directionality": "bidi", "pooler_type": "none"}
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    (folder / "bert_config.json").write_text(json.dumps(config | rates))
    letters = [*map(chr, range(65, 91)), *map(chr, range(97, 123))]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    pieces += [f"##{letter}" for letter in letters][: 97 - len(pieces)]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return str(folder)


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
    """Returns the tensors of `model_of`, by the names that `transformers` gives them.

    A bare encoder has no prefix there; we write one.
    """
    bare = architecture.endswith("Model") and not with_prefix
    family = "bert" if is_bert(architecture) else "albert"
    names = _in_their_names(model_of(architecture), layout_of(family, bare))
    return {name: value for name, _, value in names}


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


def keras_hub_tensors(kind="encoder"):
    """Returns the tensors of `model_of_keras_hub`: the backbone's, and those of the head."""
    backbone, head = {}, {}
    for name, path, value in _in_their_names(model_of_keras_hub(kind), KerasHubReader.layout):
        layer, _, number = name.removeprefix("albert_backbone/").rpartition("/")
        name = f"layers/{layer}/vars/{number}"
        # Heads (N) and head size (D) are axes of their own.
        if re.search("attention_._./(query|key|value)/", path):
            value = value.reshape(*value.shape[:-1], 4, 12)
        elif re.search("attention_._./output/kernel", path):
            value = value.reshape(4, 12, 48)
        (head if "/head/" in path or "masked_lm_head" in path else backbone)[name] = value
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
