"""Hugging Face's models: an ordered table from our names to theirs, and which model corresponds to which.

The names are those of https://github.com/huggingface/transformers (models/albert). Their kernels of dense
layers are the transpose of ours.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import safetensors.numpy
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.tensor_files import Layout, tensors_of, variables_by_path
from albert_tf.config import AlbertConfig
from albert_tf.conversion.hugging_face_config import (
    HuggingFaceConfig,
    ProblemType,
    config_there,
    generic_labels,
)
from albert_tf.conversion.hugging_face_reader import (
    CONFIG_FILE,
    ENCODER,
    PROJECTION,
    WEIGHTS_FILE,
    FolderReader,
)
from albert_tf.conversion.names import ATTENTION, FEED_FORWARD, MODEL, Row, make_layout, row
from albert_tf.errors import InputError
from albert_tf.models import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
)

_BLOCK = r"encoder.albert_layer_groups.\1.albert_layers.\2."


def _dense(pattern: str, name: str) -> list[Row]:
    """Rows of a dense layer."""
    return [
        row(pattern + "/kernel", name + ".weight", transposed=True),
        row(pattern + "/bias", name + ".bias"),
    ]


def _layer_norm(pattern: str, name: str) -> list[Row]:
    """Rows of a layer norm."""
    return [row(pattern + "/gamma", name + ".weight"), row(pattern + "/beta", name + ".bias")]


def _encoder_rows(prefix: str) -> list[Row]:
    """Rows of the encoder, whose names start with a prefix."""
    embeddings, block = prefix + "embeddings.", prefix + _BLOCK
    return [
        row(MODEL + "embedding/word_embeddings", embeddings + "word_embeddings.weight"),
        row(MODEL + "embedding/position_embeddings", embeddings + "position_embeddings.weight"),
        row(MODEL + "embedding/segment_embeddings", embeddings + "token_type_embeddings.weight"),
        *_layer_norm(MODEL + "embedding/layer_norm", embeddings + "LayerNorm"),
        *_dense(MODEL + "embedding/projection", prefix + PROJECTION.rstrip(".")),
        *_dense(ATTENTION + "(query|key|value)", block + r"attention.\3"),
        *_dense(ATTENTION + "output", block + "attention.dense"),
        *_layer_norm(ATTENTION + "layer_norm", block + "attention.LayerNorm"),
        *_dense(FEED_FORWARD + "intermediate", block + "ffn"),
        *_dense(FEED_FORWARD + "output", block + "ffn_output"),
        *_layer_norm(FEED_FORWARD + "layer_norm", block + "full_layer_layer_norm"),
        *_dense(MODEL + "pooler/dense", prefix + "pooler"),
    ]


_HEADS = [
    row(MODEL + "masked_lm_head/output_bias", "predictions.bias"),
    *_dense(MODEL + "masked_lm_head/transform", "predictions.dense"),
    *_layer_norm(MODEL + "masked_lm_head/layer_norm", "predictions.LayerNorm"),
    *_dense(MODEL + "sentence_order_head/dense", "sop_classifier.classifier"),
    *_dense(MODEL + "head/dense", "classifier"),
    *_dense(MODEL + "span_head/dense", "qa_outputs"),
    # They have no such head; the names say what is missing.
    row(MODEL + "(conditional_span_head/.+)", r"\1"),
]
# The folder of an `AlbertModel`.
stored_bare = make_layout([*_encoder_rows(""), *_HEADS], "Hugging Face's")
# The folder of a model with heads. We also write bare encoders with these names: `transformers` reads
# both forms, KerasHub only this one.
stored_with_heads = make_layout([*_encoder_rows(ENCODER), *_HEADS], "Hugging Face's")


def is_pooler(path: str) -> bool:
    """Returns whether our variable belongs to the pooler, which some of their models lack."""
    return "/pooler/" in path


def check_config(config: AlbertConfig, reader: FolderReader) -> None:
    """Raises an `InputError` if a config describes another model than the folder.

    Dropout rates and initial values may differ. So may the two forms of gelu: Hugging Face's old files
    leave the choice to the user (docs/fidelity.md), who made it with the config.
    """
    ours, theirs = config_there(config).to_dict(), reader.config.encoder.to_dict()
    if {ours["hidden_act"], theirs["hidden_act"]} == {"gelu", "gelu_erf"}:
        del theirs["hidden_act"]
    for name, value in theirs.items():
        if not name.endswith("_prob") and name != "initializer_range" and ours[name] != value:
            raise InputError(
                f"{CONFIG_FILE} has {name} {value!r}; the model's config has {ours[name]!r}"
            )


@dataclasses.dataclass(frozen=True)
class _Architecture:
    """A class of `transformers`, and our model for it.

    Attributes:
        make: makes our model.
        matches: whether a model of ours is written as this class; the first match counts.
        has_pooler: whether theirs always has a pooler.
    """

    make: Callable[[AlbertEncoder, HuggingFaceConfig], keras.Model]
    matches: Callable[[keras.Model], bool]
    has_pooler: bool


_ARCHITECTURES = {
    "AlbertModel": _Architecture(
        lambda encoder, config: encoder,
        lambda model: isinstance(model, AlbertEncoder),
        has_pooler=False,
    ),
    "AlbertForPreTraining": _Architecture(
        lambda encoder, config: AlbertPretrainer(encoder),
        lambda model: isinstance(model, AlbertPretrainer) and model.sentence_head,
        has_pooler=True,
    ),
    "AlbertForMaskedLM": _Architecture(
        lambda encoder, config: AlbertPretrainer(encoder, sentence_head=False),
        lambda model: isinstance(model, AlbertPretrainer),
        has_pooler=False,
    ),
    "AlbertForSequenceClassification": _Architecture(
        lambda encoder, config: AlbertClassifier(
            encoder, len(config.labels), dropout=config.classifier_dropout
        ),
        lambda model: isinstance(model, AlbertClassifier),
        has_pooler=True,
    ),
    "AlbertForMultipleChoice": _Architecture(
        lambda encoder, config: AlbertMultipleChoice(encoder, dropout=config.classifier_dropout),
        lambda model: isinstance(model, AlbertMultipleChoice),
        has_pooler=True,
    ),
    "AlbertForQuestionAnswering": _Architecture(
        lambda encoder, config: AlbertSpanLabeler(encoder),
        lambda model: isinstance(model, AlbertSpanLabeler),
        has_pooler=False,
    ),
}


def make_model(config: AlbertConfig, reader: FolderReader, layout: Layout) -> keras.Model:
    """Makes the model of a folder; raises an `InputError` if we have no such model."""
    name = reader.config.architecture
    if name not in _ARCHITECTURES:
        raise InputError(
            f"{os.path.join(reader.prefix, CONFIG_FILE)}: architecture {name!r} is not one of "
            f"{', '.join(_ARCHITECTURES)}"
        )
    architecture = _ARCHITECTURES[name]
    pooler = layout("albert_encoder/pooler/dense/bias")
    encoder = AlbertEncoder(config, architecture.has_pooler or reader.holds(pooler))
    return architecture.make(encoder, reader.config)


def _config_of(
    model: keras.Model, labels: Sequence[str], problem_type: ProblemType | None
) -> HuggingFaceConfig:
    """Returns the content of a model's `config.json`."""
    name = next((name for name, one in _ARCHITECTURES.items() if one.matches(model)), None)
    if name is None:
        raise InputError(f"{type(model).__name__}: Hugging Face has no model with such a head")
    config = HuggingFaceConfig(getattr(model, "encoder", model).config, name)
    if isinstance(model, AlbertClassifier):
        labels = tuple(labels) or generic_labels(model.num_classes)
        config = dataclasses.replace(config, labels=labels, problem_type=problem_type)
    if isinstance(model, AlbertClassifier | AlbertMultipleChoice):
        config = dataclasses.replace(config, classifier_dropout=model.dropout)
    return config


def save_hugging_face(
    model: keras.Model,
    directory: str,
    labels: Sequence[str] = (),
    problem_type: ProblemType | None = None,
    more_files: Mapping[str, bytes] | None = None,
) -> None:
    """Writes a model as a folder that `from_pretrained` of `transformers` reads.

    Args:
        model: an encoder, or a model with one.
        directory: the folder; it must not exist or must be empty.
        labels: names of the classes of an `AlbertClassifier`; by default `LABEL_0` and so on.
        problem_type: meaning of the outputs of an `AlbertClassifier`, if known.
        more_files: further files, name -> content, such as those from
            `albert_tf.tokenization.hugging_face_tokenizer.hugging_face_files`.

    Raises:
        InputError: they have no such model.
        StoppedError: the file system refuses.
        ValueError: the number of labels is not the number of classes.
    """
    if labels and len(labels) != model.num_classes:
        raise ValueError(f"received {len(labels)} labels for {model.num_classes} classes")
    config = _config_of(model, labels, problem_type).to_dict()
    tensors = tensors_of(variables_by_path(model.weights), stored_with_heads)
    encoder = getattr(model, "encoder", model)
    if encoder.embedding.projection is None:
        size = encoder.config.hidden_size
        tensors[ENCODER + PROJECTION + "weight"] = np.eye(size, dtype=np.float32)
        tensors[ENCODER + PROJECTION + "bias"] = np.zeros(size, np.float32)
    # The library writes an array's memory as it is.
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    contents = {
        WEIGHTS_FILE: safetensors.numpy.save(tensors, metadata={"format": "pt"}),
        **(more_files or {}),
    }
    with files.write_atomically(directory) as incomplete:
        tf.io.gfile.makedirs(incomplete)
        files.write_json(os.path.join(incomplete, CONFIG_FILE), config)
        for name, content in contents.items():
            files.write_bytes(os.path.join(incomplete, name), content)
