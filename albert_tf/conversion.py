"""Makes models from checkpoints of any format; writes folders and TensorFlow 1's checkpoints."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from albert_tf import files, folders
from albert_tf._version import __version__
from albert_tf.checkpoints import hugging_face
from albert_tf.checkpoints.heads import ARCHITECTURES, Head, class_name
from albert_tf.checkpoints.hugging_face_reader import WEIGHTS_FILE
from albert_tf.checkpoints.loading import LoadReport, load_stored, variables_of
from albert_tf.checkpoints.names import grouped_config, stored_as_original
from albert_tf.checkpoints.safetensors_files import read_tensors, write_tensors
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.checkpoints.tensors import (
    stored_names,
    tensors_of,
    variables_by_path,
    write_checkpoint,
)
from albert_tf.config import AlbertConfig, Sharing
from albert_tf.errors import InputError, name_place
from albert_tf.model_folder import (
    MODULES_FILE,
    OWN,
    TRAINED_LAYERS,
    ModelFolder,
    replace_own,
    write_config,
)
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEmbedder,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from albert_tf.models.base_model import BaseModel
from albert_tf.models.electra import ElectraPretrainer
from albert_tf.models.taught_embedder import TaughtEmbedder
from albert_tf.options.models import WeightType

CARD_FILE = "README.md"


# The kinds that they have -> the meaning of the outputs, there.
_PROBLEM_TYPES: Mapping[str, hugging_face.ProblemType | None] = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multi_label": "multi_label_classification",
    **dict.fromkeys(("embedding", "multiple_choice", "question_answering", "token_classification")),
}
# What the layers of a model have in common, on its card.
_SHARED: Mapping[Sharing, str] = {
    "all": ", whose weights they share",
    "attention": ", whose attention they share",
    "ffn": ", whose feed-forward part they share",
    "none": "",
}
_DROPOUT_MODELS = AlbertClassifier | AlbertMultipleChoice | AlbertTokenClassifier
# All models that checkpoints hold, by the names in `albert_tf.checkpoints.heads`.
_MODELS: Mapping[str, type[BaseModel]] = {
    model.NAME: model
    for model in (
        AlbertEncoder,
        AlbertPretrainer,
        AlbertClassifier,
        AlbertTokenClassifier,
        AlbertMultipleChoice,
        AlbertSpanLabeler,
        AlbertConditionalSpanLabeler,
    )
}


def load_model(config: AlbertConfig, path: str) -> tuple[keras.Model, LoadReport]:
    """Makes the model that a checkpoint holds, with its heads, and loads it.

    `config` is the encoder's, brightmart's as it was published; `path` is as for `load_checkpoint`, which
    raises the same errors. Nothing of the model may be missing.
    """
    return read_model(config, StoredModel.at(path))


def class_of(head: Head) -> type[BaseModel]:
    """Returns the class of a stored model."""
    return _MODELS[head.model]


def read_model(config: AlbertConfig, stored: StoredModel) -> tuple[keras.Model, LoadReport]:
    """Makes and loads a stored model, as `load_model` does, with a config that may have another depth."""
    head = stored.head
    with name_place(stored.reader.prefix):
        encoder = AlbertEncoder(stored.reader.adapted_config(config), head.with_pooler)
        model = encoder
        if class_of(head) is not AlbertEncoder:
            model = class_of(head)(encoder, **head.arguments)
    return model, load_stored(model, stored, may_lack=False)


def architecture_of(model: keras.Model, kind: Any = None) -> str:
    """Returns the class of `transformers` as which a model is written; raises an `InputError` if none.

    `kind` is its `albert_tf.kinds.Kind`, if it has one.
    """
    if kind is not None and kind.name not in _PROBLEM_TYPES:
        raise InputError(f"kind '{kind.name}': Hugging Face has no such models")
    config = _encoder_of(model).config
    model_type = hugging_face.model_type_of(config)
    hugging_face.equivalent_config(config, model_type)
    for end, architecture in ARCHITECTURES.items():
        arguments = architecture.arguments.items()
        is_same = all(getattr(model, name, None) == value for name, value in arguments)
        if type(model) is _MODELS[architecture.model] and is_same:
            return class_name(model_type, end)
    raise InputError(f"{type(model).__name__}: Hugging Face has no model with such a head")


def save_model(
    model: keras.Model,
    directory: str,
    kind: Any = None,
    dtype: WeightType = "float32",
    **description: Any,
) -> None:
    """Writes a model as a folder that `from_pretrained` of `transformers` reads.

    A model with sharing `none` and E == H is written as a BERT, any other as an ALBERT, and one that
    Hugging Face does not have in the same layout, which only this package reads. The folder has a model
    card, `README.md`, and can be uploaded to the Hub as it is.

    Args:
        model: an encoder, or a model with one.
        directory: the folder; one that exists is replaced.
        kind: its `albert_tf.kinds.Kind`, if it has one.
        dtype: type in which the weights are stored.
        **description: more arguments of `write_description`.

    Raises:
        StoppedError: the file system refuses.
    """
    config = _config_of(model, kind)
    tensors = tensors_of(variables_of(model), hugging_face.layout_of(config.model_type))
    if config.model_type == "albert" and _encoder_of(model).embedding.projection is None:
        size, projection = config.encoder.hidden_size, f"albert.{hugging_face.PROJECTION}"
        tensors[projection + "weight"] = np.eye(size, dtype=np.float32)
        tensors[projection + "bias"] = np.zeros(size, np.float32)
    if kind:
        kind, tensors = kind.stored(tensors)
    tensors = {name: tensor.astype(dtype) for name, tensor in tensors.items()}
    with folders.replace_folder(directory.rstrip("/")) as incomplete:
        weights = os.path.join(incomplete, WEIGHTS_FILE)
        files.make_folders(incomplete)
        write_tensors(weights, tensors)
        is_embedder = MODULES_FILE in description.get("contents", {})
        card = _model_card(model, config.to_dict(), dtype, is_embedder)
        files.write_text(os.path.join(incomplete, CARD_FILE), card)
        sums = {WEIGHTS_FILE: files.sha256(weights)}
        write_description(incomplete, model, kind, sums=sums, **description)


def replace_kind(folder: str, kind: Any) -> bool:
    """Replaces the kind in a folder of `save_model`, given one that suits the weights as they are.

    Returns whether the weights have changed, as they take up a part of the kind: see `Kind.stored`.
    """
    current = folders.current_folder(folder)
    if kind.as_stored == kind:
        replace_own(current, kind=kind.to_dict())
        return False
    kind, tensors = kind.stored(read_tensors(os.path.join(current, WEIGHTS_FILE)))
    paths = [
        os.path.join(parent, name) for parent, _, names in files.walk(current) for name in names
    ]
    contents = {os.path.relpath(path, current): files.read_bytes(path) for path in paths}
    del contents[WEIGHTS_FILE]
    sums = ModelFolder(current).own["sha256"]
    with folders.replace_folder(folder) as incomplete:
        files.make_folders(incomplete)
        _write_contents(incomplete, contents)
        weights = os.path.join(incomplete, WEIGHTS_FILE)
        write_tensors(weights, tensors)
        sums = {**sums, WEIGHTS_FILE: files.sha256(weights)}
        replace_own(incomplete, kind=kind.to_dict(), sha256=sums)
    return True


def _write_contents(folder: str, contents: Mapping[str, bytes]) -> None:
    """Writes files into a folder, some of them into folders within."""
    for name, content in contents.items():
        path = os.path.join(folder, name)
        files.make_directory(os.path.dirname(path))
        files.write_bytes(path, content)


def stored_part(model: keras.Model) -> keras.Model:
    """Returns the model that is stored of one in training, with the same variables."""
    return model.embedder if isinstance(model, TaughtEmbedder) else model


def check_names(model: keras.Model, kind: Any = None) -> None:
    """Raises an `InputError` if `save_model` would have no name for a variable, or one name for two."""
    layout = hugging_face.layout_of(_config_of(model, kind).model_type)
    stored_names(variables_of(model), layout)


def write_description(
    folder: str,
    model: keras.Model,
    kind: Any = None,
    contents: Mapping[str, bytes] = MappingProxyType({}),
    noted: Mapping[str, Any] = MappingProxyType({}),
    advice: Mapping[str, Any] = MappingProxyType({}),
    sums: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes a folder of `save_model`, but for the weights and the card.

    Args:
        folder: the folder.
        model: an encoder, or a model with one.
        kind: its `albert_tf.kinds.Kind`, if it has one.
        contents: further files, name -> content, such as those from
            `albert_tf.tokenization.hugging_face_tokenizer.tokenizer_files`.
        noted: options and metrics of its training, see `albert_tf.model_folder`.
        advice: keys of the config that say how to use the weights, see `albert_tf.model_folder`.
        sums: SHA-256 of files that are there already, by name.
    """
    files.make_directory(folder)
    _write_contents(folder, contents)
    new = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    own = {"kind": kind.to_dict()} if kind else {}
    # Last, since it has the sums of all others.
    values = {**_config_of(model, kind).to_dict(), **advice}
    if numbers := _encoder_of(model).trained_num_hidden_layers:
        values[TRAINED_LAYERS] = numbers
    write_config(folder, values, own={**own, **noted}, sums={**sums, **new})


def _encoder_of(model: keras.Model) -> AlbertEncoder:
    return getattr(model, "encoder", model)


def _model_card(
    model: keras.Model, config: Mapping[str, Any], dtype: WeightType, is_embedder: bool
) -> str:
    """Returns a model card, Markdown under the metadata by which the Hub files a model."""
    (architecture,) = config["architectures"]
    is_theirs = config["model_type"] != OWN
    metadata = ["library_name: albert_tf"]
    if is_theirs:
        end = architecture.removeprefix(config["model_type"].capitalize())
        task = ARCHITECTURES[end].hub_task
        metadata = ["library_name: transformers", f"pipeline_tag: {task}"]
    if is_embedder:
        metadata = ["library_name: sentence-transformers", "pipeline_tag: sentence-similarity"]
    readers = "`albert_tf.load`" + (" and `transformers.AutoModel` read" if is_theirs else " reads")
    # The card is that of the encoder, without ELECTRA's generator and heads.
    described = model.encoder if isinstance(model, ElectraPretrainer) else model
    size = (
        f"{config['num_hidden_layers']} layers of width {config['hidden_size']}"
        f"{_SHARED[_encoder_of(model).config.sharing]}; "
        f"{described.count_params():,} parameters, stored in {dtype}; {config['vocab_size']:,} pieces; "
        f"{config['max_position_embeddings']} positions."
    )
    lines = "\n".join(metadata)
    return f"""---
{lines}
tags:
- {config["model_type"]}
---

# {architecture}

{size}

Written by albert_tf {__version__}. {readers} the folder.
"""


def _config_of(model: keras.Model, kind: Any = None) -> hugging_face.HuggingFaceConfig:
    # An embedder has no weights of its own, and those that ELECTRA has are for further pre-training.
    is_encoder = isinstance(model, AlbertEmbedder | ElectraPretrainer)
    described = model.encoder if is_encoder else model
    encoder = _encoder_of(model).config
    try:
        config = hugging_face.HuggingFaceConfig(encoder, architecture_of(described, kind))
    except InputError:
        config = hugging_face.HuggingFaceConfig(encoder, type(described).__name__, is_own=True)
    if isinstance(model, AlbertClassifier | AlbertTokenClassifier):
        labels, problem_type = hugging_face.generic_labels(model.num_classes), None
        if kind and len(kind.labels) == model.num_classes:
            labels = kind.labels
        if kind:
            problem_type = _PROBLEM_TYPES.get(kind.name)
        config = dataclasses.replace(config, labels=labels, problem_type=problem_type)
    if isinstance(model, _DROPOUT_MODELS):
        config = dataclasses.replace(config, classifier_dropout=model.dropout)
    return config


def config_in_tf1(model: BaseModel) -> AlbertConfig:
    """Returns the config under which the original has a model; raises an `InputError` if it has none."""
    if isinstance(model, AlbertEmbedder | AlbertTokenClassifier):
        raise InputError(f"{type(model).__name__}: the original has no model with such heads")
    if model.config.hidden_act == "gelu_erf":
        raise InputError("hidden_act 'gelu_erf': the original's gelu is the tanh form, 'gelu' here")
    return grouped_config(model.config, "the original's")


def save_tf1_checkpoint(model: keras.Model, prefix: str) -> None:
    """Writes a model's weights as a TensorFlow 1 checkpoint of the original.

    Like the published ones it has a `global_step` of 0 and no slots of an optimizer. The names of the two
    files begin with `prefix`. An `InputError` says that the original has no such model.
    """
    config_in_tf1(model)
    tensors = tensors_of(variables_by_path(model.weights), stored_as_original)
    write_checkpoint(prefix, {"global_step": np.zeros((), np.int64), **tensors})
