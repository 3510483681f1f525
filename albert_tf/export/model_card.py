"""The model card, the `README.md` of an exported model."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.tokenization import Tokenizer

FILE_NAME = "README.md"

Specs = Mapping[str, tf.TensorSpec]


def model_card(
    model: keras.Model,
    kind: Any,
    tokenizer: Tokenizer,
    stored_in: str,
    evaluations: Mapping[str, Mapping[str, float]],
    specs: Sequence[Specs],
    is_saved_model: bool,
) -> str:
    """Returns the card, in Markdown.

    `evaluations` are metrics by the name of the data. `specs`, inputs and outputs by name, are empty for
    LiteRT. The scripts can run the model if it `is_saved_model`.
    """
    config = model.encoder.config
    fields = kind.to_dict()
    del fields["labels"]
    sections = [
        f"# {type(model).__name__}",
        f"{config.num_hidden_layers} layers of width {config.hidden_size}, "
        f"{config.num_attention_heads} heads, feed-forward width {config.intermediate_size}, "
        f"embeddings of width {config.embedding_size}, sharing {config.sharing}, "
        f"{config.max_position_embeddings} positions; {model.count_params():,} parameters. The "
        f"vocabulary has {tokenizer.vocab_size:,} pieces, "
        f"{'lower-cased' if tokenizer.lower_case else 'cased'}; the SHA-256 of its file is "
        f"`{tokenizer.vocabulary_sha256}`. Exported with TensorFlow {tf.__version__}.",
        f"Matrices are stored in {stored_in}."
        + " Metrics from training are those of the weights before this rounding."
        * (stored_in in ("float16", "int8")),
    ]
    sections += ["## Kind", "\n".join(f"- {name}: {value}" for name, value in fields.items())]
    if specs:
        title = "Signature `serving_default`" if is_saved_model else "Inputs and outputs"
        rows = [
            f"| {what} | `{name}` | {_describe(spec)} |"
            for what, of in zip(("input", "output"), specs, strict=True)
            for name, spec in of.items()
        ]
        sections += ["\n".join([f"## {title}", "", "| | name | type |", "|---|---|---|", *rows])]
    if kind.labels:
        sections += ["## Labels", "\n".join(f"- {label}" for label in kind.labels)]
    sections += ["## Metrics", _metrics(evaluations), "## Files"]
    sections += [
        "`assets/` holds the config, the vocabulary and `task.json`, the kind of the model."
    ]
    if is_saved_model:
        sections[-1] += (
            " `albert_tf.load` predicts with this folder, `embed_texts.py` embeds with it as `--model`, "
            "and the other scripts evaluate and predict with it as `--exported_model`."
        )
    return "\n\n".join(sections) + "\n"


def _describe(spec: tf.TensorSpec) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"{spec.dtype.name} ({sizes}{',' if spec.shape.rank == 1 else ''})"


def _metrics(evaluations: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a table with one column per evaluation, so that a loss of accuracy is visible."""
    if not evaluations:
        return "None: the model was exported without an evaluation."
    names = dict.fromkeys(name for metrics in evaluations.values() for name in metrics)
    rows = []
    for name in names:
        values = [metrics.get(name, "") for metrics in evaluations.values()]
        shown = (f"{value:.4f}" if isinstance(value, float) else f"{value}" for value in values)
        rows.append(f"| {name} | {' | '.join(shown)} |")
    header = f"| held-out data | {' | '.join(evaluations)} |"
    return "\n".join([header, "|---|" + "--:|" * len(evaluations), *rows])
