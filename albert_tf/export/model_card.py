"""Writes the model card, the `README.md` of an exported model."""

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertEmbedder
from albert_tf.tokenization import Tokenizer

FILE_NAME = "README.md"

# Title -> inputs by name, outputs by name.
Specs = Mapping[str, tf.TensorSpec]
Signatures = Mapping[str, tuple[Specs, Specs]]


def model_card(
    model: keras.Model,
    tokenizer: Tokenizer,
    signatures: Signatures,
    labels: Sequence[str],
    stored_in: str,
    evaluations: Mapping[str, Mapping[str, float]],
    is_saved_model: bool,
) -> str:
    """Returns the card, in Markdown.

    Args:
        model: the model.
        tokenizer: the tokenizer that it was trained with.
        signatures: what the model takes and returns, by title; empty for LiteRT.
        labels: names of the classes; empty for other models.
        stored_in: type of the stored matrices.
        evaluations: name of the evaluated data -> metrics.
        is_saved_model: whether the scripts can run the model.
    """
    config = model.encoder.config
    case = "lower-cased" if tokenizer.lower_case else "cased"
    sections = [
        f"# {type(model).__name__}",
        f"{_size(config)}; {model.count_params():,} parameters. The vocabulary has "
        f"{tokenizer.vocab_size:,} pieces, {case}; the SHA-256 of its file is "
        f"`{tokenizer.vocabulary_sha256}`. Exported with TensorFlow {tf.__version__}.",
        _stored_in(stored_in),
        *_pooling(model),
        *(_signature(title, *specs) for title, specs in signatures.items()),
    ]
    if labels:
        sections += ["## Labels", "\n".join(f"- {label}" for label in labels)]
    sections += ["## Metrics", _metrics(evaluations)]
    sections += ["## Files", _files(model, is_saved_model)]
    return "\n\n".join(sections) + "\n"


def _size(config: AlbertConfig) -> str:
    return (
        f"{config.num_hidden_layers} layers of width {config.hidden_size}, "
        f"{config.num_attention_heads} heads, feed-forward width {config.intermediate_size}, "
        f"embeddings of width {config.embedding_size}, sharing {config.sharing}, "
        f"{config.max_position_embeddings} positions"
    )


def _signature(title: str, inputs: Specs, outputs: Specs) -> str:
    rows = [f"| input | `{key}` | {_describe(spec)} |" for key, spec in inputs.items()]
    rows += [f"| output | `{key}` | {_describe(spec)} |" for key, spec in outputs.items()]
    return "\n".join([f"## {title}", "", "| | name | type |", "|---|---|---|", *rows])


def _describe(spec: tf.TensorSpec) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"{spec.dtype.name} ({sizes}{',' if spec.shape.rank == 1 else ''})"


def _stored_in(dtype: str) -> str:
    sentence = f"Matrices are stored in {dtype}."
    if dtype in ("float16", "int8"):
        sentence += " Metrics from training are those of the weights before this rounding."
    return sentence


def _pooling(model: keras.Model) -> list[str]:
    if not isinstance(model, AlbertEmbedder):
        return []
    length = "of length 1" if model.normalize else "not normalised"
    return [f"Embeddings have the pooling `{model.pooling}` and are {length}."]


def _files(model: keras.Model, is_saved_model: bool) -> str:
    assets = "`assets/` holds the config, the vocabulary and the label metadata of the model."
    if not is_saved_model:
        return assets
    if isinstance(model, AlbertEmbedder):
        return f"{assets} `embed_texts.py` embeds with this folder as `--model`."
    return (
        f"{assets} The script that trained the model evaluates and predicts with this folder as "
        "`--exported_model`."
    )


def _metrics(evaluations: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a table with one column per evaluation, so that a loss of accuracy is visible."""
    if not evaluations:
        return "None: the model was exported without an evaluation."
    names = dict.fromkeys(name for metrics in evaluations.values() for name in metrics)
    rows = []
    for name in names:
        values = [metrics.get(name) for metrics in evaluations.values()]
        rows.append(f"| {name} | {' | '.join(map(_format, values))} |")
    header = f"| held-out data | {' | '.join(evaluations)} |"
    return "\n".join([header, "|---|" + "--:|" * len(evaluations), *rows])


def _format(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else f"{value}"
