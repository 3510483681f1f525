"""Writes our models as Hugging Face folders and as TensorFlow 1 checkpoints of the original."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

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
    ProblemType,
    encoder_prefix,
    generic_labels,
    layout_of,
    model_type_of,
)
from albert_tf.checkpoints.hugging_face_reader import WEIGHTS_FILE
from albert_tf.checkpoints.names import config_in_original, stored_as_original
from albert_tf.checkpoints.tensor_files import tensors_of, variables_by_path, write_checkpoint
from albert_tf.conversion.model_loading import architecture_of
from albert_tf.errors import InputError
from albert_tf.models import (
    AlbertClassifier,
    AlbertEmbedder,
    AlbertMultipleChoice,
    AlbertTokenClassifier,
)

WeightType = Literal["float32", "float16"]

CARD_FILE = "README.md"
# The Hub's names for what the classes of `transformers` do.
_HUB_TASKS = {
    "ForPreTraining": "fill-mask",
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForQuestionAnswering": "question-answering",
    "Model": "feature-extraction",
}


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
        InputError: they have no such model.
        StoppedError: the file system refuses.
        ValueError: the number of labels is not the number of classes.
    """
    if labels and len(labels) != model.num_classes:
        raise ValueError(f"received {len(labels)} labels for {model.num_classes} classes")
    config = _config_of(model, labels, problem_type).to_dict()
    encoder = getattr(model, "encoder", model)
    model_type = model_type_of(encoder.config)
    tensors = tensors_of(variables_by_path(model.weights), layout_of(model_type))
    if model_type == "albert" and encoder.embedding.projection is None:
        size, projection = encoder.config.hidden_size, encoder_prefix(model_type) + PROJECTION
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
    task = _HUB_TASKS[architecture.removeprefix(config["model_type"].capitalize())]
    sharing = "" if config["model_type"] == "bert" else ", whose weights they share"
    return "\n".join(
        [
            "---",
            "library_name: transformers",
            f"pipeline_tag: {task}",
            "tags:",
            f"- {config['model_type']}",
            "---",
            "",
            f"# {architecture}",
            "",
            f"{config['num_hidden_layers']} layers of width {config['hidden_size']}{sharing}; "
            f"{model.count_params():,} parameters, stored in {dtype}; "
            f"{config['vocab_size']:,} pieces; {config['max_position_embeddings']} positions.",
            "",
            f"Written by albert_tf {__version__}. `albert_tf.load` and `transformers.AutoModel` read the "
            "folder.",
            "",
        ]
    )


def _config_of(
    model: keras.Model, labels: Sequence[str], problem_type: ProblemType | None
) -> HuggingFaceConfig:
    """Returns the content of a model's `config.json`."""
    config = HuggingFaceConfig(getattr(model, "encoder", model).config, architecture_of(model))
    if isinstance(model, AlbertClassifier | AlbertTokenClassifier):
        labels = tuple(labels) or generic_labels(model.num_classes)
        config = dataclasses.replace(config, labels=labels, problem_type=problem_type)
    if isinstance(model, AlbertClassifier | AlbertMultipleChoice | AlbertTokenClassifier):
        config = dataclasses.replace(config, classifier_dropout=model.dropout)
    return config


def save_tf1_checkpoint(model: keras.Model, prefix: str) -> None:
    """Writes a model's weights as a TensorFlow 1 checkpoint of the original.

    Like the published ones it has a `global_step` of 0 and no slots of an optimizer.

    Args:
        model: an encoder, or a model with one.
        prefix: prefix of the names of the two files, such as `converted/model.ckpt-best`.

    Raises:
        InputError: the original has no such model.
        StoppedError: the file system refuses.
    """
    if isinstance(model, AlbertEmbedder | AlbertTokenClassifier):
        raise InputError(f"{type(model).__name__}: the original has no model with such heads")
    config_in_original(getattr(model, "encoder", model).config)
    tensors = tensors_of(variables_by_path(model.weights), stored_as_original)
    write_checkpoint(prefix, {"global_step": np.zeros((), np.int64), **tensors})
