"""Hugging Face's ALBERT and BERT: their `config.json`, and an ordered table from our names to theirs.

Keys and names are those of https://github.com/huggingface/transformers (models/albert and models/bert).
Most keys are also the original's. Their kernels of dense layers are the transpose of ours. In our terms a
BERT is an encoder with sharing `none` and E == H.

What they cannot express, such as the sharing of attention alone, has the same files and keys, our names,
and the model_type `albert_tf`, which `transformers` refuses.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, get_args

from albert_tf.accounting import account_for
from albert_tf.checkpoints.names import grouped_config, make_layout, names_in, read_rows
from albert_tf.checkpoints.tensors import Layout, stored_by_path
from albert_tf.config import BERT_SHARING, LAYER_NORM_EPSILON, AlbertConfig, with_bert_keys
from albert_tf.errors import InputError
from albert_tf.known_files import CONFIG
from albert_tf.model_folder import OWN

ModelType = Literal["albert", "bert", "albert_tf"]
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]

# Theirs -> ours. The first of several names for one function is written.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu": "gelu_erf",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# Keys of the head's dropout rate.
_DROPOUT_KEYS: Mapping[ModelType, str] = {
    "albert": "classifier_dropout_prob",
    "bert": "classifier_dropout",
    OWN: "classifier_dropout_prob",
}
_RATE = (lambda value: type(value) in (int, float) and 0 <= value < 1, "a number in [0, 1)")
# Keys that are not the encoder's: a test of the value, and the expected value in words. null is absent.
_HEAD_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "architectures": (
        lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
        "a list of names",
    ),
    **dict.fromkeys(_DROPOUT_KEYS.values(), _RATE),
    "id2label": (
        lambda value: (
            isinstance(value, dict)
            and {*value} == {*map(str, range(len(value)))}
            and all(isinstance(label, str | int | float) for label in value.values())
        ),
        'an object with a label for each of "0", "1" and so on',
    ),
    # Of files older than `id2label`.
    "num_labels": (lambda value: type(value) is int and value > 0, "a positive number"),
    "problem_type": (
        lambda value: value in get_args(ProblemType),
        f"one of {', '.join(get_args(ProblemType))}",
    ),
}
# The defaults of `transformers`.
_CLASSIFIER_DROPOUT = 0.1
_NUM_LABELS = 2


def generic_labels(count: int) -> tuple[str, ...]:
    """Returns the labels of classes that have no names."""
    return tuple(f"LABEL_{index}" for index in range(count))


# Ids of <pad>, [CLS] and [SEP] in every published SentencePiece vocabulary, and of [PAD] in BERT's.
_TOKENS: Mapping[ModelType, Mapping[str, int]] = {
    "albert": {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    "bert": {"pad_token_id": 0},
    OWN: {},
}


@dataclasses.dataclass(frozen=True)
class HuggingFaceConfig:
    """The content of a `config.json`.

    `classifier_dropout` is the rate before the head, `labels` are the names of its classes. With `is_own`
    it is of a model that Hugging Face does not have.
    """

    encoder: AlbertConfig
    architecture: str | None = None
    classifier_dropout: float = _CLASSIFIER_DROPOUT
    labels: tuple[str, ...] = generic_labels(_NUM_LABELS)
    problem_type: ProblemType | None = None
    is_own: bool = False

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels; none if they are only `LABEL_0` and so on."""
        return () if self.labels == generic_labels(len(self.labels)) else self.labels

    @property
    def model_type(self) -> ModelType:
        """Which of their models this is."""
        return OWN if self.is_own else model_type_of(self.encoder)

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Makes the config from the content of a `config.json`."""
        received = values["model_type"] if is_hugging_face(values) else None
        if received not in get_args(ModelType):
            raise InputError(f"is of a model_type {received!r}; expected 'albert' or 'bert'")
        account_for(values, CONFIG)
        for key, (is_valid, expected) in _HEAD_KEYS.items():
            value = values.get(key)
            if value is not None and not is_valid(value):
                raise InputError(f"key '{key}' is {value!r}; expected {expected}")
        model_type, config = values["model_type"], _encoder_of(values)
        if model_type != OWN:
            check_groups(config)
        dropout = values.get(_DROPOUT_KEYS[model_type])
        if dropout is None:
            is_bert = model_type == "bert"
            dropout = config.hidden_dropout_prob if is_bert else _CLASSIFIER_DROPOUT
        id2label = values.get("id2label") or {}
        labels = tuple(str(id2label[str(index)]) for index in range(len(id2label)))
        return cls(
            config,
            architecture=(values.get("architectures") or [None])[0],
            classifier_dropout=dropout,
            labels=labels or generic_labels(values.get("num_labels") or _NUM_LABELS),
            problem_type=values.get("problem_type"),
            is_own=model_type == OWN,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of a `config.json`."""
        encoder = equivalent_config(self.encoder, self.model_type).to_dict()
        absent = {"albert": ("sharing",), "bert": ("embedding_size", *BERT_SHARING), OWN: ()}
        for key in absent[self.model_type]:
            del encoder[key]
        names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
        values = {
            "architectures": [self.architecture],
            "model_type": self.model_type,
            **encoder,
            "hidden_act": names[self.encoder.hidden_act],
            "layer_norm_eps": LAYER_NORM_EPSILON,
            _DROPOUT_KEYS[self.model_type]: self.classifier_dropout,
            **_TOKENS[self.model_type],
        }
        if self.labels != generic_labels(_NUM_LABELS):
            values["id2label"] = {str(index): label for index, label in enumerate(self.labels)}
            values["label2id"] = {label: index for index, label in enumerate(self.labels)}
        if self.problem_type:
            values["problem_type"] = self.problem_type
        return values


def is_hugging_face(values: Any) -> bool:
    """Returns whether the content of a JSON file has their keys, for a model of any type."""
    return isinstance(values, Mapping) and "model_type" in values


def model_type_of(config: AlbertConfig) -> ModelType:
    """Returns the `model_type` under which an encoder is written."""
    return "bert" if config.is_bert else "albert"


def equivalent_config(config: AlbertConfig, model_type: ModelType) -> AlbertConfig:
    """Returns the config under which Hugging Face has the same layers with the same weights."""
    if model_type == "bert":
        # Without sharing, groups mean nothing.
        return dataclasses.replace(config, num_hidden_groups=1) if config.is_bert else config
    if model_type == OWN:
        return config
    grouped = grouped_config(config, "Hugging Face's")
    check_groups(grouped)
    return grouped


def has_equivalent(config: AlbertConfig) -> bool:
    """Returns whether Hugging Face has the same layers."""
    try:
        equivalent_config(config, model_type_of(config))
    except InputError:
        return False
    return True


def stored_config(config: AlbertConfig) -> AlbertConfig:
    """Returns the config that a folder stores for an encoder: theirs or, if they have none, ours."""
    return equivalent_config(config, model_type_of(config)) if has_equivalent(config) else config


def check_groups(config: AlbertConfig) -> None:
    """Raises an `InputError` if their rule puts a layer into another group than the original's.

    Theirs is `int(i / (L / G))`, ours `int(i / L * G)`. For up to 48 layers they differ by rounding in
    24 cases; none of them is published.
    """
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    for layer in range(layers):
        ours, theirs = config.group_of_layer(layer), int(layer / (layers / groups))
        if ours != theirs:
            raise InputError(
                f"{layers} layers in {groups} groups: layer {layer} belongs to group {theirs} in a "
                f"Hugging Face model and to group {ours} in the original's and ours"
            )


def _encoder_of(values: Mapping[str, Any]) -> AlbertConfig:
    ours = {field.name for field in dataclasses.fields(AlbertConfig)}
    if values["model_type"] != OWN:
        ours.remove("sharing")
    encoder = {key: value for key, value in values.items() if key in ours}
    is_bert = values["model_type"] == "bert"
    if is_bert:
        encoder = with_bert_keys(encoder)
    activation = values.get("hidden_act", "gelu" if is_bert else "gelu_new")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise InputError(f"hidden_act {activation!r} is not one of {', '.join(_ACTIVATIONS)}")
    return AlbertConfig.from_dict({**encoder, "hidden_act": _ACTIVATIONS[activation]})


# Prefix of an ALBERT's projection E -> H, which they also have for E == H.
PROJECTION = "encoder.embedding_hidden_mapping_in."

_ENDS = {
    "kernel": (".weight", True),
    "bias": (".bias", False),
    "gamma": (".weight", False),
    "beta": (".bias", False),
}
# The encoder's names have a prefix in models with heads.
_EMBEDDING = """
embedding/word_embeddings        embeddings.word_embeddings.weight
embedding/position_embeddings    embeddings.position_embeddings.weight
embedding/segment_embeddings     embeddings.token_type_embeddings.weight
embedding/layer_norm             embeddings.LayerNorm
embedding/projection             encoder.embedding_hidden_mapping_in
"""
_ENCODER: Mapping[ModelType, str] = {
    "albert": r"""
attention/(query|key|value)      {block}attention.\3
attention/output                 {block}attention.dense
attention/layer_norm             {block}attention.LayerNorm
ffn/intermediate                 {block}ffn
ffn/output                       {block}ffn_output
ffn/layer_norm                   {block}full_layer_layer_norm
pooler/dense                     pooler
""".replace("{block}", r"encoder.albert_layer_groups.\1.albert_layers.\2."),
    "bert": r"""
attention/(query|key|value)      {block}attention.self.\3
attention/output                 {block}attention.output.dense
attention/layer_norm             {block}attention.output.LayerNorm
ffn/intermediate                 {block}intermediate.dense
ffn/output                       {block}output.dense
ffn/layer_norm                   {block}output.LayerNorm
pooler/dense                     pooler.dense
""".replace("{block}", r"encoder.layer.\1."),
}
_HEADS: Mapping[ModelType, str] = {
    "albert": """
masked_lm_head/output_bias       predictions.bias
masked_lm_head/transform         predictions.dense
masked_lm_head/layer_norm        predictions.LayerNorm
sentence_order_head/dense        sop_classifier.classifier
""",
    "bert": """
masked_lm_head/output_bias       cls.predictions.bias
masked_lm_head/transform         cls.predictions.transform.dense
masked_lm_head/layer_norm        cls.predictions.transform.LayerNorm
sentence_order_head/dense        cls.seq_relationship
""",
}
_COMMON_HEADS = """
(?:token_)?head/dense            classifier
span_head/dense                  qa_outputs
"""


def heads_of(model_type: ModelType) -> tuple[str, ...]:
    """Returns the names of the layers of heads in the folders of a model."""
    return names_in(_HEADS[model_type] + _COMMON_HEADS)


def layout_of(model_type: ModelType, bare: bool = False) -> Layout:
    """Returns how the folders of a model store our variables.

    The names of a bare `AlbertModel` or `BertModel` have no prefix. We also write bare encoders with the
    prefix: `transformers` reads both forms, KerasHub only this one.
    """
    if model_type == OWN:
        return stored_by_path
    prefix = "" if bare else f"{model_type}."
    encoder = read_rows(_EMBEDDING + _ENCODER[model_type])
    rows = [
        *((path, dataclasses.replace(to, names=(prefix + to.names[0],))) for path, to in encoder),
        *read_rows(_HEADS[model_type] + _COMMON_HEADS),
    ]
    return make_layout(rows, _ENDS, "Hugging Face's")
