"""Which model a checkpoint holds: an encoder, or an encoder with a head.

A Hugging Face folder says it by the class of `transformers` in its config, all other formats by the names
of their tensors. Models are named by the `NAME` of their class in `albert_tf.models`, which is also the
first part of the paths of their variables.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert_tf.checkpoints.hugging_face import ModelType
from albert_tf.checkpoints.hugging_face_reader import FolderReader
from albert_tf.checkpoints.tensors import TensorReader
from albert_tf.errors import InputError, warn
from albert_tf.model_folder import CONFIG_FILE

ENCODER, PRETRAINER = "albert_encoder", "albert_pretrainer"
CLASSIFIER, TOKEN_CLASSIFIER = "albert_classifier", "albert_token_classifier"
MULTIPLE_CHOICE, SPAN_LABELER = "albert_multiple_choice", "albert_span_labeler"

# Biases of the heads that have a number of classes.
CLASSIFIER_BIAS = f"{CLASSIFIER}/head/dense/bias"
TOKEN_CLASSIFIER_BIAS = f"{TOKEN_CLASSIFIER}/token_head/dense/bias"
# A variable of each head. Of the formats that name several heads alike, the first one is meant.
_HEAD_VARIABLES = (
    f"{PRETRAINER}/masked_lm_head/output_bias",
    CLASSIFIER_BIAS,
    TOKEN_CLASSIFIER_BIAS,
    f"{MULTIPLE_CHOICE}/head/dense/bias",
    f"{SPAN_LABELER}/span_head/dense/bias",
    "albert_conditional_span_labeler/conditional_span_head/start_logits/bias",
)
_POOLER = f"{ENCODER}/pooler/dense/bias"
_SENTENCE_HEAD = f"{PRETRAINER}/sentence_order_head/dense/bias"


class Architecture(NamedTuple):
    """A class of `transformers` for each type of model, and our model for it.

    Attributes:
        model: name of our model.
        hub_task: the Hub's name for what it does.
        has_pooler: whether theirs always has a pooler.
        has_classes: whether its head has a number of classes.
        has_dropout: whether its config has a dropout rate of the head.
        arguments: arguments that our model always has, which are its attributes, too.
    """

    model: str
    hub_task: str
    has_pooler: bool = False
    has_classes: bool = False
    has_dropout: bool = False
    arguments: Mapping[str, Any] = {}


# By the names of the classes after `Albert` and `Bert`.
ARCHITECTURES = {
    "Model": Architecture(ENCODER, "feature-extraction"),
    "ForPreTraining": Architecture(
        PRETRAINER, "fill-mask", has_pooler=True, arguments={"sentence_head": True}
    ),
    "ForMaskedLM": Architecture(PRETRAINER, "fill-mask", arguments={"sentence_head": False}),
    "ForSequenceClassification": Architecture(
        CLASSIFIER, "text-classification", has_pooler=True, has_classes=True, has_dropout=True
    ),
    "ForTokenClassification": Architecture(
        TOKEN_CLASSIFIER, "token-classification", has_classes=True, has_dropout=True
    ),
    "ForMultipleChoice": Architecture(
        MULTIPLE_CHOICE, "multiple-choice", has_pooler=True, has_dropout=True
    ),
    "ForQuestionAnswering": Architecture(SPAN_LABELER, "question-answering"),
}


@dataclasses.dataclass(frozen=True)
class Head:
    """Which model a checkpoint holds.

    Attributes:
        model: name of the model; that of the encoder if there is no head.
        with_pooler: whether the encoder has a pooler.
        arguments: arguments of the model's constructor that the checkpoint determines.
    """

    model: str
    with_pooler: bool
    arguments: Mapping[str, Any]


def class_name(model_type: ModelType, end: str) -> str:
    """Returns the name of a class of `transformers`, given its end as in `ARCHITECTURES`."""
    return f"{model_type.capitalize()}{end}"


def read_head(reader: TensorReader) -> Head:
    """Returns which model an open checkpoint holds.

    Raises:
        InputError: it is a model of `transformers` that we do not have.
    """
    if isinstance(reader, FolderReader) and not reader.config.is_own:
        return _read_architecture(reader)
    variable = next(filter(reader.holds, _HEAD_VARIABLES), None)
    model = variable.partition("/")[0] if variable else ENCODER
    arguments: dict[str, Any] = {}
    if model == PRETRAINER:
        arguments["sentence_head"] = reader.holds(_SENTENCE_HEAD)
    if variable in (CLASSIFIER_BIAS, TOKEN_CLASSIFIER_BIAS):
        (arguments["num_classes"],) = reader.shape(reader.layout(variable))
    return Head(model, reader.holds(_POOLER), arguments)


def _read_architecture(reader: FolderReader) -> Head:
    config = reader.config
    name = config.architecture or _guess_architecture(reader)
    architectures = {
        class_name(config.model_type, end): architecture
        for end, architecture in ARCHITECTURES.items()
    }
    architecture = architectures.get(name)
    if architecture is None:
        raise InputError(
            f"{CONFIG_FILE}: architecture {name!r} is not one of {', '.join(architectures)}"
        )
    arguments = dict(architecture.arguments)
    if architecture.has_classes:
        arguments["num_classes"] = len(config.labels)
    if architecture.has_dropout:
        arguments["dropout"] = config.classifier_dropout
    with_pooler = architecture.has_pooler or reader.holds(_POOLER)
    return Head(architecture.model, with_pooler, arguments)


def _guess_architecture(reader: FolderReader) -> str:
    """Returns the class of a model whose config names none, as its tensors tell, with a warning."""
    variable = next(filter(reader.holds, _HEAD_VARIABLES), _POOLER)
    end = {
        f"{PRETRAINER}/masked_lm_head/output_bias": (
            "ForPreTraining" if reader.holds(_SENTENCE_HEAD) else "ForMaskedLM"
        ),
        # Classifiers of texts have a pooler; those of tokens have the same names otherwise.
        CLASSIFIER_BIAS: (
            "ForSequenceClassification" if reader.holds(_POOLER) else "ForTokenClassification"
        ),
        f"{SPAN_LABELER}/span_head/dense/bias": "ForQuestionAnswering",
    }.get(variable, "Model")
    name = class_name(reader.config.model_type, end)
    if variable == CLASSIFIER_BIAS and reader.shape(reader.layout(variable)) == (1,):
        raise InputError(
            f"{CONFIG_FILE}: has no architectures, and its head has one output, as regressions and "
            f"multiple choice have; expected architectures, such as [{name!r}]"
        )
    if end != "Model":
        warn(f"{reader.prefix}: {CONFIG_FILE} has no architectures; read as {name}")
    return name
