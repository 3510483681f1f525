"""Makes our models from checkpoints of other formats, and saves them in these formats."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import safetensors.numpy
import tensorflow as tf

from albert_tf import files
from albert_tf._version import __version__
from albert_tf.checkpoints.hugging_face import (
    CONFIG_FILE,
    PROJECTION,
    HuggingFaceConfig,
    ModelType,
    ProblemType,
    generic_labels,
    layout_of,
    model_type_of,
)
from albert_tf.checkpoints.hugging_face_reader import WEIGHTS_FILE, FolderReader
from albert_tf.checkpoints.loading import LoadReport, load_reader, open_checkpoint
from albert_tf.checkpoints.names import in_groups, stored_as_original
from albert_tf.checkpoints.tensor_files import (
    TensorReader,
    tensors_of,
    variables_by_path,
    write_checkpoint,
)
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, name_place
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
from albert_tf.options.parts import WeightType

CARD_FILE = "README.md"


class _Architecture(NamedTuple):
    """A class of `transformers` for each type of model, and our model for it.

    Attributes:
        model: class of our model.
        hub_task: the Hub's name for what it does.
        has_pooler: whether theirs always has a pooler.
        options: arguments that our model always has, which are its attributes, too.
    """

    model: type[BaseModel]
    hub_task: str
    has_pooler: bool = False
    options: Mapping[str, Any] = {}


_WITH_DROPOUT = AlbertClassifier | AlbertMultipleChoice | AlbertTokenClassifier
# By the names of the classes after `Albert` and `Bert`.
_ARCHITECTURES = {
    "Model": _Architecture(AlbertEncoder, "feature-extraction"),
    "ForPreTraining": _Architecture(AlbertPretrainer, "fill-mask", True, {"sentence_head": True}),
    "ForMaskedLM": _Architecture(AlbertPretrainer, "fill-mask", False, {"sentence_head": False}),
    "ForSequenceClassification": _Architecture(AlbertClassifier, "text-classification", True),
    "ForTokenClassification": _Architecture(AlbertTokenClassifier, "token-classification"),
    "ForMultipleChoice": _Architecture(AlbertMultipleChoice, "multiple-choice", True),
    "ForQuestionAnswering": _Architecture(AlbertSpanLabeler, "question-answering"),
}


def load_model(config: AlbertConfig, path: str) -> tuple[keras.Model, LoadReport]:
    """Makes the model that a checkpoint holds, with its heads, and loads it.

    `config` is the encoder's, brightmart's as it was published; `path` is as for `load_checkpoint`, which
    raises the same errors. Nothing of the model may be missing.
    """
    reader = open_checkpoint(path)
    make = _make_hugging_face_model if isinstance(reader, FolderReader) else _make_model
    with name_place(reader.prefix):
        model = make(reader.config_here(config), reader)
    return model, load_reader(model, reader)


def _make_model(config: AlbertConfig, reader: TensorReader) -> keras.Model:
    holds = reader.holds
    encoder = AlbertEncoder(config, with_pooler=holds("albert_encoder/pooler/dense/bias"))
    if holds("albert_pretrainer/masked_lm_head/output_bias"):
        sentence_head = holds("albert_pretrainer/sentence_order_head/dense/bias")
        return AlbertPretrainer(encoder, sentence_head)
    for classifier in (AlbertClassifier, AlbertTokenClassifier):
        if holds(classifier.HEAD_BIAS):
            (num_classes,) = reader.shape(reader.layout(classifier.HEAD_BIAS))
            return classifier(encoder, num_classes)
    if holds("albert_multiple_choice/head/dense/bias"):
        return AlbertMultipleChoice(encoder)
    if holds("albert_span_labeler/span_head/dense/bias"):
        return AlbertSpanLabeler(encoder)
    if holds("albert_conditional_span_labeler/conditional_span_head/start_logits/bias"):
        return AlbertConditionalSpanLabeler(encoder)
    return encoder


def _make_hugging_face_model(config: AlbertConfig, reader: FolderReader) -> keras.Model:
    """Makes the model of a folder; raises an `InputError` if we have no such model."""
    name, model_type = reader.config.architecture, reader.config.model_type
    architectures = {_class_name(model_type, end): one for end, one in _ARCHITECTURES.items()}
    if name not in architectures:
        raise InputError(
            f"{CONFIG_FILE}: architecture {name!r} is not one of {', '.join(architectures)}"
        )
    model_class, _, has_pooler, options = architectures[name]
    with_pooler = has_pooler or reader.holds("albert_encoder/pooler/dense/bias")
    encoder = AlbertEncoder(config, with_pooler)
    if model_class is AlbertEncoder:
        return encoder
    options = dict(options)
    if model_class.HEAD_BIAS is not None:
        options["num_classes"] = len(reader.config.labels)
    if issubclass(model_class, _WITH_DROPOUT):
        options["dropout"] = reader.config.classifier_dropout
    return model_class(encoder, **options)


def architecture_of(model: BaseModel) -> str:
    """Returns the class of `transformers` as which a model is written; raises an `InputError` if none."""
    for end, (model_class, _, _, options) in _ARCHITECTURES.items():
        is_same = all(getattr(model, name, None) == value for name, value in options.items())
        if isinstance(model, model_class) and is_same:
            return _class_name(model_type_of(model.config), end)
    raise InputError(f"{type(model).__name__}: Hugging Face has no model with such a head")


def _class_name(model_type: ModelType, end: str) -> str:
    return f"{model_type.capitalize()}{end}"


def save_hugging_face(
    model: keras.Model,
    directory: str,
    labels: Sequence[str] = (),
    problem_type: ProblemType | None = None,
    more_files: Mapping[str, bytes] | None = None,
    dtype: WeightType = "float32",
) -> None:
    """Writes a model as a folder that `from_pretrained` of `transformers` reads.

    A model with sharing `none` and E == H is written as a BERT, any other as an ALBERT. The folder has a
    model card, `README.md`, and can be uploaded to the Hub as it is.

    Args:
        model: an encoder, or a model with one.
        directory: the folder; it must not exist or must be empty.
        labels: names of the classes of an `AlbertClassifier` or an `AlbertTokenClassifier`; by default
            `LABEL_0` and so on.
        problem_type: meaning of the outputs of an `AlbertClassifier`, if known.
        more_files: further files, name -> content, such as those from
            `albert_tf.tokenization.hugging_face_tokenizer.hugging_face_files`.
        dtype: type in which the weights are stored.

    Raises:
        InputError: they have no such model, or the number of labels is not the number of classes.
        StoppedError: the file system refuses.
    """
    num_classes = getattr(model, "num_classes", 0)
    if labels and len(labels) != num_classes:
        raise InputError(f"labels: received {len(labels)} for {num_classes} classes")
    config = _config_of(model, labels, problem_type).to_dict()
    encoder = getattr(model, "encoder", model)
    model_type = model_type_of(encoder.config)
    tensors = tensors_of(variables_by_path(model.weights), layout_of(model_type))
    if model_type == "albert" and encoder.embedding.projection is None:
        size, projection = encoder.config.hidden_size, f"albert.{PROJECTION}"
        tensors[projection + "weight"] = np.eye(size, dtype=np.float32)
        tensors[projection + "bias"] = np.zeros(size, np.float32)
    # The library writes an array's memory as it is.
    tensors = {name: np.ascontiguousarray(tensor, dtype) for name, tensor in tensors.items()}
    contents = {
        CARD_FILE: _model_card(model, config, dtype).encode(),
        WEIGHTS_FILE: safetensors.numpy.save(tensors, metadata={"format": "pt"}),
        **(more_files or {}),
    }
    with files.write_atomically(directory) as incomplete:
        tf.io.gfile.makedirs(incomplete)
        files.write_json(os.path.join(incomplete, CONFIG_FILE), config)
        for name, content in contents.items():
            files.write_bytes(os.path.join(incomplete, name), content)


def _model_card(model: keras.Model, config: Mapping[str, Any], dtype: WeightType) -> str:
    """Returns a model card, Markdown under the metadata by which the Hub files a model."""
    (architecture,) = config["architectures"]
    task = _ARCHITECTURES[architecture.removeprefix(config["model_type"].capitalize())].hub_task
    sharing = "" if config["model_type"] == "bert" else ", whose weights they share"
    size = (
        f"{config['num_hidden_layers']} layers of width {config['hidden_size']}{sharing}; "
        f"{model.count_params():,} parameters, stored in {dtype}; {config['vocab_size']:,} pieces; "
        f"{config['max_position_embeddings']} positions."
    )
    return f"""---
library_name: transformers
pipeline_tag: {task}
tags:
- {config["model_type"]}
---

# {architecture}

{size}

Written by albert_tf {__version__}. `albert_tf.load` and `transformers.AutoModel` read the folder.
"""


def _config_of(
    model: keras.Model, labels: Sequence[str], problem_type: ProblemType | None
) -> HuggingFaceConfig:
    config = HuggingFaceConfig(model.config, architecture_of(model))
    if isinstance(model, AlbertClassifier | AlbertTokenClassifier):
        labels = tuple(labels) or generic_labels(model.num_classes)
        config = dataclasses.replace(config, labels=labels, problem_type=problem_type)
    if isinstance(model, _WITH_DROPOUT):
        config = dataclasses.replace(config, classifier_dropout=model.dropout)
    return config


def config_in_tf1(model: BaseModel) -> AlbertConfig:
    """Returns the config under which the original has a model; raises an `InputError` if it has none."""
    if isinstance(model, AlbertEmbedder | AlbertTokenClassifier):
        raise InputError(f"{type(model).__name__}: the original has no model with such heads")
    if model.config.hidden_act == "gelu_erf":
        raise InputError("hidden_act 'gelu_erf': the original's gelu is the tanh form, 'gelu' here")
    return in_groups(model.config, "the original's")


def save_tf1_checkpoint(model: keras.Model, prefix: str) -> None:
    """Writes a model's weights as a TensorFlow 1 checkpoint of the original.

    Like the published ones it has a `global_step` of 0 and no slots of an optimizer. The names of the two
    files begin with `prefix`. An `InputError` says that the original has no such model.
    """
    config_in_tf1(model)
    tensors = tensors_of(variables_by_path(model.weights), stored_as_original)
    write_checkpoint(prefix, {"global_step": np.zeros((), np.int64), **tensors})
