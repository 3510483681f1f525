"""The shape of a model: `AlbertConfig`, its JSON file, the published sizes and the paper's baselines."""

import dataclasses
import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

from albert_tf import files
from albert_tf.accounting import check_value
from albert_tf.errors import InputError, name_place
from albert_tf.known_files import PUBLISHED

# The name that it has beside checkpoints and in exported models, and that of Google's BERTs.
ALBERT_CONFIG_FILE, BERT_CONFIG_FILE = "albert_config.json", "bert_config.json"

# Epsilon of all of the original's layer norms.
LAYER_NORM_EPSILON = 1e-12

# Keys of ours that say how a BERT differs from an ALBERT, besides the width of its embedding.
BERT_SHARING: Mapping[str, Any] = {"sharing": "none", "num_hidden_groups": 1, "inner_group_num": 1}
# Defaults of BERT's code that old files rely on.
_BERT_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}

# Bounds far above every model that exists: a mistyped size would take all memory, or hours.
_MAX_BLOCKS = 10_000
_MAX_MATRIX = 10**10

Sharing = Literal["all", "attention", "ffn", "none"]
Activation = Literal["gelu", "gelu_erf", "relu", "tanh", "linear"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig:
    """The sizes and options of an encoder, ALBERT's or BERT's.

    The names are those of the published `albert_config.json` files; `sharing` is ours.

    Attributes:
        vocab_size: V, the number of pieces of the vocabulary.
        hidden_size: H, the width of every encoder layer.
        num_hidden_layers: L, the number of layers; each applies a group of blocks.
        num_attention_heads: N; H is a multiple of it.
        intermediate_size: F, the width inside the feed-forward part.
        embedding_size: E, the width of the embedding tables; where E == H there is no projection.
        num_hidden_groups: G; layer i uses the weights of group `int(i / L * G)`.
        inner_group_num: blocks in a group, applied one after the other, each with its own weights.
        sharing: what the layers of a group share: `all`, only the `attention` part, only the `ffn`
            part, or `none` (BERT).
        hidden_act: activation inside the feed-forward part and the masked-LM head; `gelu` is its tanh
            form, the published one, `gelu_erf` the exact one.
        hidden_dropout_prob: dropout after the embeddings, the attention output and the feed-forward part.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        max_position_embeddings: the longest sequence.
        type_vocab_size: number of segments.
        initializer_range: standard deviation of the truncated normal that kernels and tables start from.

    Raises:
        InputError: a value is of the wrong type or out of range.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    embedding_size: int = 128
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    sharing: Sharing = "all"
    hidden_act: Activation = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _check_value(field, getattr(self, field.name))
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise InputError(
                f"num_hidden_groups {self.num_hidden_groups} is greater than "
                f"num_hidden_layers {self.num_hidden_layers}"
            )
        blocks = self.num_hidden_layers * self.inner_group_num
        if blocks > _MAX_BLOCKS:
            raise InputError(
                f"num_hidden_layers {self.num_hidden_layers} x inner_group_num "
                f"{self.inner_group_num} are {blocks} blocks; expected at most {_MAX_BLOCKS}"
            )
        self._check_matrices()

    def _check_matrices(self) -> None:
        """Refuses sizes whose product is a matrix that no machine holds."""
        pairs = (
            ("vocab_size", "embedding_size"),
            ("max_position_embeddings", "embedding_size"),
            ("type_vocab_size", "embedding_size"),
            ("embedding_size", "hidden_size"),
            ("hidden_size", "hidden_size"),
            ("hidden_size", "intermediate_size"),
        )
        for one, other in pairs:
            sizes = getattr(self, one), getattr(self, other)
            if sizes[0] * sizes[1] > _MAX_MATRIX:
                raise InputError(
                    f"{one} {sizes[0]} x {other} {sizes[1]}: expected a matrix of at most "
                    f"{_MAX_MATRIX:.0e} parameters"
                )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Makes a config from the content of an `albert_config.json`.

        Raises:
            InputError: it is no dictionary, a key is unknown or missing, or a value is not allowed.
        """
        if not isinstance(values, Mapping):
            raise InputError(f"expected a JSON object, received a {type(values).__name__}")
        known = {field.name: field for field in dataclasses.fields(cls)}
        for key, value in values.items():
            if key not in known:
                _check_key_without_effect(key, value, [*known, *PUBLISHED])
        missing = [
            name
            for name, field in known.items()
            if field.default is dataclasses.MISSING and name not in values
        ]
        if missing:
            raise InputError(f"key '{missing[0]}' is missing")
        return cls(**{name: value for name, value in values.items() if name in known})

    @classmethod
    def from_json_file(cls, path: str) -> Self:
        """Reads a config file; the published ones load unchanged, also BERT's `bert_config.json`.

        Raises:
            InputError: the file cannot be read or does not describe a model; names file and key.
        """
        values = files.read_json(path)
        with name_place(path):
            return cls.from_dict(of_published_file(values, path))

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Returns a published size or a baseline of the paper.

        Args:
            name: `base_v1` to `xxlarge_v2`, or `bert_base` to `bert_xlarge`.
            **changes: fields to set to another value.

        Raises:
            InputError: there is no such preset.
        """
        if name not in PRESETS:
            raise InputError(f"unknown preset '{name}'; known: {', '.join(PRESETS)}")
        return cls(**{**PRESETS[name], **changes})

    @property
    def is_bert(self) -> bool:
        """Whether it is a BERT's: each layer has its own weights, and the embedding has their width."""
        own_layers = self.sharing == "none" and self.inner_group_num == 1
        return own_layers and self.embedding_size == self.hidden_size

    @property
    def has_one_layer(self) -> bool:
        """Whether all layers have the same weights, so that any number of them can be computed."""
        return self.sharing == "all" and self.num_hidden_groups == 1

    def with_layers(self, num_hidden_layers: int | None) -> Self:
        """Returns the config with another number of layers, unless it is None.

        Raises:
            InputError: layers have weights of their own, or the number is not positive.
        """
        if num_hidden_layers is None:
            return self
        if not self.has_one_layer:
            raise InputError(
                f"num_hidden_layers={num_hidden_layers}: expected layers that share all weights; "
                f"these have sharing '{self.sharing}' and num_hidden_groups {self.num_hidden_groups}"
            )
        return dataclasses.replace(self, num_hidden_layers=num_hidden_layers)

    def check_trained_layers(self, numbers: Sequence[int]) -> None:
        """Checks the numbers of layers that training draws from, if any.

        Raises:
            InputError: a number is not positive, the config's own is not among them, or layers have
                weights of their own.
        """
        with name_place(f"trained_num_hidden_layers={','.join(map(str, numbers))}"):
            for number in numbers:
                self.with_layers(number)
            if len(set(numbers)) < len(numbers):
                raise InputError("expected each number once")
            if numbers and self.num_hidden_layers not in numbers:
                raise InputError(
                    f"expected the model's own number, {self.num_hidden_layers}, among them"
                )

    def group_of_layer(self, layer: int) -> int:
        """Returns the group that a layer, counted from 0, uses.

        In floating point, as the original has it: for 22 layers in 22 groups and ten other cases of up to
        48 layers the exact quotient would give another group.
        """
        return int(layer / self.num_hidden_layers * self.num_hidden_groups)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as a dictionary that `from_dict` reads."""
        return dataclasses.asdict(self)

    def to_json_file(self, path: str) -> None:
        """Writes the config as `from_json_file` reads it."""
        files.write_json(path, self.to_dict())

    def has_rows_for(self, vocab_size: int) -> bool:
        """Returns whether the word table, which may be padded, is that of a vocabulary."""
        return self.vocab_size in padded_sizes(vocab_size)


def of_published_file(values: Any, path: str) -> Any:
    """Returns the content of a published config with the keys that only its name tells.

    A `bert_config.json` has no key for what ALBERT changed. Under any other name the same keys are an
    ALBERT's, with the original's defaults.
    """
    is_bert = os.path.basename(path) == BERT_CONFIG_FILE and isinstance(values, Mapping)
    is_complete = is_bert and ("embedding_size" in values or "sharing" in values)
    return with_bert_keys(values) if is_bert and not is_complete else values


def with_bert_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a BERT's config with the keys of ours that make it one in our terms."""
    width = {"embedding_size": values["hidden_size"]} if "hidden_size" in values else {}
    return {**_BERT_DROPOUT, **values, **BERT_SHARING, **width}


def padded_sizes(vocab_size: int) -> set[int]:
    """Returns how many rows the word table of a vocabulary may have: some pad it for their devices."""
    return {-(-vocab_size // multiple) * multiple for multiple in (1, 8, 16, 32, 64, 128)}


def _check_value(field: dataclasses.Field, value: Any) -> None:
    if field.type is int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{field.name} {value!r} is not a positive integer")
    elif field.type is float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
            raise InputError(f"{field.name} {value!r} is not a number in [0, 1)")
    elif value not in get_args(field.type):
        choices = ", ".join(get_args(field.type))
        raise InputError(f"{field.name} {value!r} is not one of {choices}")


def _check_key_without_effect(key: str, value: Any, known: list[str]) -> None:
    if key not in PUBLISHED:
        if closest := difflib.get_close_matches(key, known, n=1, cutoff=0.75):
            raise InputError(f"unknown key '{key}'; the closest known key is '{closest[0]}'")
        raise InputError(
            f"unknown key '{key}'; `albert_tf.read_config` reads configs of Hugging Face, which have the "
            "model_type 'albert' or 'bert'"
        )
    check_value(key, value, PUBLISHED[key].accepted)


def _size(hidden_size: int, num_hidden_layers: int, **more: Any) -> dict[str, Any]:
    """The rules of the paper's section 3.1 and table 1: F = 4H, N = H / 64, 30,000 pieces."""
    return {
        "vocab_size": 30000,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": hidden_size // 64,
        "intermediate_size": 4 * hidden_size,
        **more,
    }


def _dropout(rate: float) -> dict[str, float]:
    return {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}


def _bert(hidden_size: int, num_hidden_layers: int) -> dict[str, Any]:
    """A baseline of the paper: BERT in ALBERT's terms."""
    return _size(
        hidden_size, num_hidden_layers, embedding_size=hidden_size, sharing="none", **_dropout(0.1)
    )


# Published configs: https://github.com/google-research/albert, where version 1 has dropout 0.1 but in
# xxlarge, version 2 none, and xlarge 16 heads against the rule.
PRESETS: dict[str, dict[str, Any]] = {
    "base_v1": _size(768, 12, **_dropout(0.1)),
    "large_v1": _size(1024, 24, **_dropout(0.1)),
    "xlarge_v1": {**_size(2048, 24), "num_attention_heads": 16, **_dropout(0.1)},
    "xxlarge_v1": _size(4096, 12),
    "base_v2": _size(768, 12),
    "large_v2": _size(1024, 24),
    "xlarge_v2": {**_size(2048, 24), "num_attention_heads": 16},
    "xxlarge_v2": _size(4096, 12),
    "bert_base": _bert(768, 12),
    "bert_large": _bert(1024, 24),
    "bert_xlarge": _bert(2048, 24),
}
