"""Hugging Face's models: an ordered table from our names to theirs, and which model corresponds to which.

The names are those of https://github.com/huggingface/transformers (models/albert and models/bert). Their
kernels of dense layers are the transpose of ours.
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
    ModelType,
    ProblemType,
    config_there,
    generic_labels,
    model_type_of,
)
from albert_tf.conversion.hugging_face_reader import (
    CONFIG_FILE,
    PROJECTION,
    WEIGHTS_FILE,
    FolderReader,
    encoder_prefix,
)
from albert_tf.conversion.names import ATTENTION, FEED_FORWARD, MODEL, make_layout, row
from albert_tf.errors import InputError
from albert_tf.models import (
    AlbertClassifier,
    AlbertEarlyExitClassifier,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)

# What a row of the table stands for: ends of our patterns and of their names, and whether to transpose.
_TENSOR = (("", "", False),)
_DENSE = (("/kernel", ".weight", True), ("/bias", ".bias", False))
_LAYER_NORM = (("/gamma", ".weight", False), ("/beta", ".bias", False))

_GROUP = r"encoder.albert_layer_groups.\1.albert_layers.\2."
_LAYER = r"encoder.layer.\1."
# Our pattern and their names, an ALBERT's and a BERT's, or one name for both. The encoder's have a prefix
# in models with heads.
_ENCODER = (
    (_TENSOR, MODEL + "embedding/word_embeddings", "embeddings.word_embeddings.weight"),
    (_TENSOR, MODEL + "embedding/position_embeddings", "embeddings.position_embeddings.weight"),
    (_TENSOR, MODEL + "embedding/segment_embeddings", "embeddings.token_type_embeddings.weight"),
    (_LAYER_NORM, MODEL + "embedding/layer_norm", "embeddings.LayerNorm"),
    (_DENSE, MODEL + "embedding/projection", PROJECTION.rstrip(".")),
    (
        _DENSE,
        ATTENTION + "(query|key|value)",
        _GROUP + r"attention.\3",
        _LAYER + r"attention.self.\3",
    ),
    (_DENSE, ATTENTION + "output", _GROUP + "attention.dense", _LAYER + "attention.output.dense"),
    (
        _LAYER_NORM,
        ATTENTION + "layer_norm",
        _GROUP + "attention.LayerNorm",
        _LAYER + "attention.output.LayerNorm",
    ),
    (_DENSE, FEED_FORWARD + "intermediate", _GROUP + "ffn", _LAYER + "intermediate.dense"),
    (_DENSE, FEED_FORWARD + "output", _GROUP + "ffn_output", _LAYER + "output.dense"),
    (
        _LAYER_NORM,
        FEED_FORWARD + "layer_norm",
        _GROUP + "full_layer_layer_norm",
        _LAYER + "output.LayerNorm",
    ),
    (_DENSE, MODEL + "pooler/dense", "pooler", "pooler.dense"),
)
_HEADS = (
    (_TENSOR, MODEL + "masked_lm_head/output_bias", "predictions.bias", "cls.predictions.bias"),
    (
        _DENSE,
        MODEL + "masked_lm_head/transform",
        "predictions.dense",
        "cls.predictions.transform.dense",
    ),
    (
        _LAYER_NORM,
        MODEL + "masked_lm_head/layer_norm",
        "predictions.LayerNorm",
        "cls.predictions.transform.LayerNorm",
    ),
    (
        _DENSE,
        MODEL + "sentence_order_head/dense",
        "sop_classifier.classifier",
        "cls.seq_relationship",
    ),
    (_DENSE, MODEL + "(?:token_)?head/dense", "classifier"),
    (_DENSE, MODEL + "span_head/dense", "qa_outputs"),
    # Hugging Face has no such heads; these names serve the report of missing keys.
    (_TENSOR, MODEL + r"((?:conditional_span_head|embedding_head|exit_head_\d+)/.+)", r"\1"),
)


def layout_of(model_type: ModelType, bare: bool = False) -> Layout:
    """Returns how the folders of a model store our variables.

    Args:
        model_type: which of their models.
        bare: whether it is an `AlbertModel` or a `BertModel`, whose names have no prefix. We also write
            bare encoders with the prefix: `transformers` reads both forms, KerasHub only this one.
    """
    column = {"albert": 0, "bert": -1}[model_type]
    prefix = "" if bare else encoder_prefix(model_type)
    rows = [
        row(ours + our_end, start + theirs[column] + their_end, transposed=transposed)
        for start, table in ((prefix, _ENCODER), ("", _HEADS))
        for parts, ours, *theirs in table
        for our_end, their_end, transposed in parts
    ]
    return make_layout(rows, "Hugging Face's")


def is_pooler(path: str) -> bool:
    """Returns whether our variable belongs to the pooler, which some of their models lack."""
    return "/pooler/" in path


def check_config(config: AlbertConfig, reader: FolderReader) -> None:
    """Raises an `InputError` if a config describes another model than the folder.

    Dropout rates and initial values may differ. So may the two forms of gelu: Hugging Face's old files
    leave the choice to the user (docs/fidelity.md), who made it with the config.
    """
    ours = config_there(config, reader.config.model_type).to_dict()
    theirs = reader.config.encoder.to_dict()
    if {ours["hidden_act"], theirs["hidden_act"]} == {"gelu", "gelu_erf"}:
        del theirs["hidden_act"]
    for name, value in theirs.items():
        if not name.endswith("_prob") and name != "initializer_range" and ours[name] != value:
            raise InputError(
                f"{CONFIG_FILE} has {name} {value!r}; the model's config has {ours[name]!r}"
            )


@dataclasses.dataclass(frozen=True)
class _Architecture:
    """A class of `transformers` for each type of model, and our model for it.

    Attributes:
        make: makes our model.
        matches: whether a model of ours is written as this class; the first match counts.
        has_pooler: whether theirs always has a pooler.
    """

    make: Callable[[AlbertEncoder, HuggingFaceConfig], keras.Model]
    matches: Callable[[keras.Model], bool]
    has_pooler: bool


# By the names of the classes after `Albert` and `Bert`.
_ARCHITECTURES = {
    "Model": _Architecture(
        lambda encoder, config: encoder,
        lambda model: isinstance(model, AlbertEncoder),
        has_pooler=False,
    ),
    "ForPreTraining": _Architecture(
        lambda encoder, config: AlbertPretrainer(encoder),
        lambda model: isinstance(model, AlbertPretrainer) and model.sentence_head,
        has_pooler=True,
    ),
    "ForMaskedLM": _Architecture(
        lambda encoder, config: AlbertPretrainer(encoder, sentence_head=False),
        lambda model: isinstance(model, AlbertPretrainer),
        has_pooler=False,
    ),
    "ForSequenceClassification": _Architecture(
        lambda encoder, config: AlbertClassifier(
            encoder, len(config.labels), dropout=config.classifier_dropout
        ),
        lambda model: (
            isinstance(model, AlbertClassifier) and not isinstance(model, AlbertEarlyExitClassifier)
        ),
        has_pooler=True,
    ),
    "ForTokenClassification": _Architecture(
        lambda encoder, config: AlbertTokenClassifier(
            encoder, len(config.labels), dropout=config.classifier_dropout
        ),
        lambda model: isinstance(model, AlbertTokenClassifier),
        has_pooler=False,
    ),
    "ForMultipleChoice": _Architecture(
        lambda encoder, config: AlbertMultipleChoice(encoder, dropout=config.classifier_dropout),
        lambda model: isinstance(model, AlbertMultipleChoice),
        has_pooler=True,
    ),
    "ForQuestionAnswering": _Architecture(
        lambda encoder, config: AlbertSpanLabeler(encoder),
        lambda model: isinstance(model, AlbertSpanLabeler),
        has_pooler=False,
    ),
}


def make_model(config: AlbertConfig, reader: FolderReader, layout: Layout) -> keras.Model:
    """Makes the model of a folder; raises an `InputError` if we have no such model."""
    name, model_type = reader.config.architecture, reader.config.model_type
    architectures = {_class_name(model_type, end): one for end, one in _ARCHITECTURES.items()}
    if name not in architectures:
        raise InputError(
            f"{os.path.join(reader.prefix, CONFIG_FILE)}: architecture {name!r} is not one of "
            f"{', '.join(architectures)}"
        )
    architecture = architectures[name]
    pooler = layout("albert_encoder/pooler/dense/bias")
    encoder = AlbertEncoder(config, architecture.has_pooler or reader.holds(pooler))
    return architecture.make(encoder, reader.config)


def _class_name(model_type: ModelType, end: str) -> str:
    return f"{model_type.capitalize()}{end}"


def _config_of(
    model: keras.Model, labels: Sequence[str], problem_type: ProblemType | None
) -> HuggingFaceConfig:
    """Returns the content of a model's `config.json`."""
    end = next((end for end, one in _ARCHITECTURES.items() if one.matches(model)), None)
    if end is None:
        raise InputError(f"{type(model).__name__}: Hugging Face has no model with such a head")
    encoder = getattr(model, "encoder", model).config
    config = HuggingFaceConfig(encoder, _class_name(model_type_of(encoder), end))
    if isinstance(model, AlbertClassifier | AlbertTokenClassifier):
        labels = tuple(labels) or generic_labels(model.num_classes)
        config = dataclasses.replace(config, labels=labels, problem_type=problem_type)
    if isinstance(model, AlbertClassifier | AlbertMultipleChoice | AlbertTokenClassifier):
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

    A model with sharing `none` and E == H is written as a BERT, any other as an ALBERT.

    Args:
        model: an encoder, or a model with one.
        directory: the folder; it must not exist or must be empty.
        labels: names of the classes of an `AlbertClassifier` or an `AlbertTokenClassifier`; by default
            `LABEL_0` and so on.
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
    encoder = getattr(model, "encoder", model)
    model_type = model_type_of(encoder.config)
    tensors = tensors_of(variables_by_path(model.weights), layout_of(model_type))
    if model_type == "albert" and encoder.embedding.projection is None:
        size, projection = encoder.config.hidden_size, encoder_prefix(model_type) + PROJECTION
        tensors[projection + "weight"] = np.eye(size, dtype=np.float32)
        tensors[projection + "bias"] = np.zeros(size, np.float32)
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
