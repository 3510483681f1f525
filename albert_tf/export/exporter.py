"""Exports a trained model of any kind in version folders, `<export_dir>/<folder>/<n>/`.

Each has the files of a form, a model card, and as assets the folder of the model without its weights, and
the labels, one per line. `FORMS` says what the forms are, and which module writes each of them.
"""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.conversion import write_description
from albert_tf.errors import InputError
from albert_tf.export.saved_models import PAIRS
from albert_tf.export.version_folders import assets_folder, can_write_text, write_next_version
from albert_tf.export.writers import Arrays, Exported, Predict, Written, graph_function
from albert_tf.options.export_forms import DEFAULT_FORM, FORMS, Form, Weights, check_form
from albert_tf.tokenization import AlbertTokenizer, Tokenizer
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files

LABELS_FILE = "labels.txt"
CARD_FILE = "README.md"

Evaluations = Mapping[str, Mapping[str, float]]


def export(
    model: keras.Model,
    kind: Any,
    tokenizer: Tokenizer,
    export_dir: str,
    form: Form = DEFAULT_FORM,
    weights: Weights | None = None,
    *,
    evaluations: Evaluations = MappingProxyType({}),
    calibration: Sequence[Arrays] = (),
    evaluate: Callable[[Predict], Mapping[str, float]] | None = None,
) -> dict[str, str]:
    """Writes the next version of a trained model; its number is one above the greatest of its form.

    Args:
        model: the model.
        kind: its `albert_tf.kinds.Kind`.
        tokenizer: the tokenizer that the model was trained with.
        export_dir: parent of the models' folders.
        form: name of a row of `FORMS`.
        weights: type of the matrices, if the form has it; None for the type that the model computes in.
        evaluations: for the model card: name of the evaluated data -> metrics.
        calibration: inputs of the model, int32 (1, S) each, with choices (1, C, S), if the
            form estimates the ranges of activations from them.
        evaluate: evaluates a file that can be run, given as a function from a batch to its outputs, for
            the model card.

    Returns:
        The written folders of the form; without TensorFlow Text no `text`.

    Raises:
        InputError: the model has no such form, or a package that writes it is missing.
        StoppedError: the file system refuses.
    """
    check_form(form, weights, has_examples=bool(calibration))
    check_kind(kind, form, tokenizer)
    exported = Exported(model, kind, tokenizer, weights, calibration)
    facts = FORMS[form]
    writer = importlib.import_module(f"{__package__}.{facts.writer}")
    names = [
        name
        for name in facts.folders
        if name != facts.text_folder or can_write_text(export_dir, name)
    ]
    with write_next_version(export_dir, names) as (paths, incomplete):
        for folder in incomplete.values():
            files.make_folders(folder)
        for name, written in writer.write(exported, incomplete).items():
            measured = {}
            if evaluate and facts.evaluated == "file":
                measured["as exported"] = evaluate(graph_function(written))
            _describe(exported, written, form, incomplete[name], {**measured, **evaluations})
    return paths


def check_kind(kind: Any, form: Form, tokenizer: Tokenizer) -> None:
    """Raises an `InputError` if models of a kind do not have a form."""
    lacks = FORMS[form].lacks
    if "choices" in lacks and kind.num_choices:
        raise InputError(f"export_format={form}: {kind.name.replace('_', ' ')} has no such form")
    is_sentencepiece = isinstance(tokenizer, AlbertTokenizer)
    if "wordpiece_spans" in lacks and kind.finds_spans and not is_sentencepiece:
        raise InputError(
            f"export_format={form}: a text model with a WordPiece vocabulary cannot find parts of "
            "texts; expected a SentencePiece model, or another format"
        )


def _describe(
    exported: Exported, written: Written, form: Form, folder: str, evaluations: Evaluations
) -> None:
    """Writes the assets and the model card."""
    model, kind, tokenizer = exported.model, exported.kind, exported.tokenizer
    contents = tokenizer_files(tokenizer, model.config, kind)
    if kind.labels:
        contents[LABELS_FILE] = "".join(f"{label}\n" for label in kind.labels).encode()
    write_description(folder=assets_folder(folder, form), model=model, kind=kind, contents=contents)
    card = "\n\n".join(_card_sections(exported, written, form, evaluations)) + "\n"
    files.write_text(os.path.join(folder, CARD_FILE), card)


def _card_sections(
    exported: Exported, written: Written, form: Form, evaluations: Evaluations
) -> Iterator[str]:
    """Yields the paragraphs of the model card, in Markdown."""
    model, kind, tokenizer = exported.model, exported.kind, exported.tokenizer
    config, facts = model.encoder.config, FORMS[form]
    stored_in = exported.weights or written.stored_in
    yield f"# {type(model).__name__}"
    yield (
        f"{config.num_hidden_layers} layers of width {config.hidden_size}, "
        f"{config.num_attention_heads} heads, feed-forward width {config.intermediate_size}, "
        f"embeddings of width {config.embedding_size}, sharing {config.sharing}, "
        f"{config.max_position_embeddings} positions; {model.count_params():,} parameters. The "
        f"vocabulary has {tokenizer.vocab_size:,} pieces, "
        f"{'lower-cased' if tokenizer.lower_case else 'cased'}; the SHA-256 of its file is "
        f"`{tokenizer.vocabulary_sha256}`. Exported with TensorFlow {tf.__version__}."
    )
    is_rounded = stored_in in ("float16", "int8")
    yield (
        f"Matrices are stored in {stored_in}."
        + " Metrics from training are those of the weights before this rounding." * is_rounded
    )
    fields = {name: value for name, value in kind.to_dict().items() if name != "labels"}
    yield "## Kind"
    yield "\n".join(f"- {name}: {value}" for name, value in fields.items())
    if written.inputs:
        yield f"## {written.title}"
        rows = [
            f"| {what} | `{name}` | {_describe_type(spec)} |"
            for what, named in (("input", written.inputs), ("output", written.outputs))
            for name, spec in named.items()
        ]
        yield "\n".join(["| | name | type |", "|---|---|---|", *rows])
    if more := kind.optional_texts:
        names = ", ".join(f"`{name}`" for name in more)
        yield (
            "Whether the model was trained on pairs is not known. The signature "
            f"`{PAIRS}` of SavedModels for texts, and the file `{PAIRS}.xml` of OpenVINO, also take "
            f"{names}, of which an empty one makes no pair."
        )
    if kind.labels:
        yield "## Labels"
        yield "\n".join(f"- {label}" for label in kind.labels)
    yield "## Metrics"
    yield _metrics_table(evaluations)
    yield "## Files"
    use = " `albert_tf.load` predicts, evaluates and embeds with this folder."
    place = f"`{facts.assets}/`" if facts.assets else "This folder"
    yield (
        f"{place} holds the config, which also names the kind of the model, and the vocabulary."
        + use * facts.is_loaded
    )


def _describe_type(spec: tf.TensorSpec) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"{spec.dtype.name} ({sizes}{',' if spec.shape.rank == 1 else ''})"


def _metrics_table(evaluations: Evaluations) -> str:
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
