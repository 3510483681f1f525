"""Makes the model that a checkpoint holds: which of our classes corresponds to which of others."""

import dataclasses
import os
from collections.abc import Callable

import keras

from albert_tf.checkpoints.formats import open_checkpoint
from albert_tf.checkpoints.hugging_face import (
    CONFIG_FILE,
    HuggingFaceConfig,
    ModelType,
    model_type_of,
)
from albert_tf.checkpoints.hugging_face_reader import FolderReader
from albert_tf.checkpoints.loading import LoadReport, load_reader
from albert_tf.checkpoints.tensor_files import Layout, TensorReader
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
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
        lambda model: isinstance(model, AlbertClassifier),
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


def load_model(config: AlbertConfig, path: str) -> tuple[keras.Model, LoadReport]:
    """Makes the model that a checkpoint holds, with its heads, and loads it.

    Args:
        config: config of the encoder; brightmart's as it was published, with an E of its own.
        path: as for `load_checkpoint`.

    Returns:
        One of the models of `albert_tf.models`, and the report.

    Raises:
        InputError: as for `load_checkpoint`, and if anything of the model is missing.
    """
    reader, found = open_checkpoint(path)
    make = _make_hugging_face_model if isinstance(reader, FolderReader) else _make_model
    model = make(found.config_here(config), reader, found.layout)
    return model, load_reader(model, reader, found)


def _make_model(config: AlbertConfig, reader: TensorReader, layout: Layout) -> keras.Model:
    """Makes the model whose heads a checkpoint holds."""

    def holds(path: str) -> bool:
        return reader.holds(layout(path))

    encoder = AlbertEncoder(config, with_pooler=holds("albert_encoder/pooler/dense/bias"))
    if holds("albert_pretrainer/masked_lm_head/output_bias"):
        sentence_head = holds("albert_pretrainer/sentence_order_head/dense/bias")
        return AlbertPretrainer(encoder, sentence_head)
    if holds(AlbertClassifier.HEAD_BIAS):
        (num_classes,) = reader.shape(layout(AlbertClassifier.HEAD_BIAS))
        return AlbertClassifier(encoder, num_classes)
    if holds(AlbertTokenClassifier.HEAD_BIAS):
        (num_classes,) = reader.shape(layout(AlbertTokenClassifier.HEAD_BIAS))
        return AlbertTokenClassifier(encoder, num_classes)
    if holds("albert_embedder/embedding_head/layer_weights"):
        return AlbertEmbedder(encoder, "weighted_layers")
    if holds("albert_multiple_choice/head/dense/bias"):
        return AlbertMultipleChoice(encoder)
    if holds("albert_span_labeler/span_head/dense/bias"):
        return AlbertSpanLabeler(encoder)
    if holds("albert_conditional_span_labeler/conditional_span_head/start_logits/bias"):
        return AlbertConditionalSpanLabeler(encoder)
    return encoder


def _make_hugging_face_model(
    config: AlbertConfig, reader: FolderReader, layout: Layout
) -> keras.Model:
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


def architecture_of(model: keras.Model) -> str:
    """Returns the class of `transformers` as which a model is written."""
    end = next((end for end, one in _ARCHITECTURES.items() if one.matches(model)), None)
    if end is None:
        raise InputError(f"{type(model).__name__}: Hugging Face has no model with such a head")
    return _class_name(model_type_of(getattr(model, "encoder", model).config), end)


def _class_name(model_type: ModelType, end: str) -> str:
    return f"{model_type.capitalize()}{end}"
