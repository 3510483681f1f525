"""Exports a trained model of any kind in a version folder.

<export_dir>/ids/<n>/       SavedModel, ids -> predictions; needs TensorFlow alone
<export_dir>/text/<n>/      SavedModel, raw text -> predictions; needs TensorFlow Text's operators
<export_dir>/tflite/<n>/    model.tflite, ids of one text -> predictions, for LiteRT
<export_dir>/openvino/<n>/  model.xml and model.bin, raw text or ids -> predictions, for OpenVINO
<export_dir>/onnx/<n>/      onnx/model.onnx, ids -> predictions, for ONNX Runtime, also in browsers

Each has a model card, and `assets/`: the folder of the model without its weights, and the labels, one per
line. An ONNX model has these files in the version's folder, where Hugging Face's libraries look.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.conversion import write_description
from albert_tf.errors import InputError
from albert_tf.export import onnx_models, openvino_text, runtimes, saved_models, warmup
from albert_tf.export.version_folders import assets_folder, can_write_text, write_next_version
from albert_tf.options.parts import Form, Weights, check_form
from albert_tf.tokenization import AlbertTokenizer, Tokenizer
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files

LABELS_FILE = "labels.txt"
CARD_FILE = "README.md"

Specs = Mapping[str, tf.TensorSpec]
Evaluations = Mapping[str, Mapping[str, float]]

# Forms whose files are quantized as they are written, and can be evaluated.
RUNTIME_FORMS = ("openvino", "onnx")


# The type of the weights, the inputs, a function that runs the file, and the signature it was made of.
_Written = tuple[str, Specs, runtimes.Run, tf.types.experimental.ConcreteFunction]


def export(
    model: keras.Model,
    kind: Any,
    tokenizer: Tokenizer,
    export_dir: str,
    form: Form = "saved_model",
    weights: Weights | None = None,
    *,
    evaluations: Evaluations = MappingProxyType({}),
    calibration: Sequence[runtimes.Arrays] = (),
    evaluate: Callable[[runtimes.Predict], Mapping[str, float]] | None = None,
) -> dict[str, str]:
    """Writes the next version of a trained model; its number is one above the greatest of its form.

    Args:
        model: the model.
        kind: its `albert_tf.kinds.Kind`.
        tokenizer: the tokenizer that the model was trained with.
        export_dir: parent of the models' folders.
        form: SavedModels, or a file for LiteRT, OpenVINO or ONNX Runtime.
        weights: type of the matrices in a file of another runtime: float16 (LiteRT, ONNX) or int8; None
            for the type that the model computes in.
        evaluations: for the model card: name of the evaluated data -> metrics.
        calibration: inputs of the model, int32 (1, S) each, with choices (1, C, S). OpenVINO in int8
            estimates the ranges of activations from them.
        evaluate: evaluates the file for OpenVINO or ONNX Runtime, given as a function from a batch to
            its outputs, for the model card.

    Returns:
        The written folders: `ids` and, with TensorFlow Text, `text`; or the one of another form.

    Raises:
        InputError: the model has no such form, or a package that writes it is missing.
        StoppedError: the file system refuses.
    """
    check_form(form, weights, has_examples=bool(calibration))
    check_kind(kind, form, tokenizer)
    writer = _Export(
        model, kind, tokenizer, export_dir, form, weights, evaluations, calibration, evaluate
    )
    return writer.write_saved_models() if form == "saved_model" else writer.write_file()


def check_kind(kind: Any, form: Form, tokenizer: Tokenizer) -> None:
    """Raises an `InputError` if models of a kind do not have a form."""
    if form == "tflite" and kind.num_choices:
        raise InputError(f"export_format=tflite: {kind.name.replace('_', ' ')} has no such form")
    is_sentencepiece = isinstance(tokenizer, AlbertTokenizer)
    if form == "saved_model" and kind.finds_spans and not is_sentencepiece:
        raise InputError(
            "export_format=saved_model: a text model with a WordPiece vocabulary cannot find parts of "
            "texts; expected a SentencePiece model, or another format"
        )


@dataclasses.dataclass(frozen=True)
class _Export:
    """The arguments of `export`."""

    model: keras.Model
    kind: Any
    tokenizer: Tokenizer
    export_dir: str
    form: Form
    weights: Weights | None
    evaluations: Evaluations
    calibration: Sequence[runtimes.Arrays]
    evaluate: Callable[[runtimes.Predict], Mapping[str, float]] | None

    def write_saved_models(self) -> dict[str, str]:
        """Writes the model of ids and, with TensorFlow Text, that of texts."""
        names = ["ids"]
        if can_write_text(self.export_dir, "text"):
            names.append("text")
        with write_next_version(self.export_dir, names) as (paths, incomplete):
            ids_model = saved_models.IdsModel(self.model, self.kind)
            modules = {"ids": ids_model}
            if "text" in names:
                modules["text"] = saved_models.TextModel(ids_model, self.kind, self.tokenizer)
            for name, module in modules.items():
                signature, folder = module.serve, incomplete[name]
                with files.explain_refusal(paths[name]):
                    tf.saved_model.save(module, folder, signatures={"serving_default": signature})
                specs = saved_models.input_specs(signature), signature.structured_outputs
                self._describe(folder, self.model.compute_dtype, specs, {})
                if name == "text":
                    warmup.write_batching_parameters(folder, specs[1])
                if warmup.is_available():
                    requests = warmup.sample_requests(signature)
                    warmup.write_warmup_requests(folder, signature, requests)
        return paths

    def write_file(self) -> dict[str, str]:
        """Writes the file for another runtime."""
        form = self.form
        with write_next_version(self.export_dir, [form]) as (paths, incomplete):
            folder, evaluations = incomplete[form], {}
            tf.io.gfile.makedirs(folder)
            if form == "tflite":
                path = os.path.join(folder, runtimes.TFLITE_FILE)
                runtimes.write_tflite(self.model, self.kind, path, self.weights)
                stored_in, specs = "float32", ()
            else:
                write = self._write_onnx if form == "onnx" else self._write_openvino
                stored_in, inputs, run, signature = write(folder)
                specs = inputs, signature.structured_outputs
                if self.evaluate:
                    metrics = self.evaluate(runtimes.graph_function(run, signature))
                    evaluations = {"as exported": metrics}
            self._describe(folder, self.weights or stored_in, specs, evaluations)
        return paths

    def _write_onnx(self, folder: str) -> _Written:
        module = onnx_models.onnx_module(self.model, self.kind)
        path = onnx_models.write_onnx(module, folder, self.weights)
        inputs = onnx_models.onnx_inputs(module)
        return "float32", inputs, onnx_models.load_onnx(path), module.serve

    def _write_openvino(self, folder: str) -> _Written:
        """Returns a function that runs the file without the tokenizer."""

        def predict(model, inputs):
            return self.kind.outputs(model(inputs, training=False))

        unchecked = saved_models.UncheckedModel(
            self.model, predict, saved_models.ids_specs(self.kind)
        )
        model = runtimes.convert_to_openvino(unchecked)
        is_int8 = self.weights == "int8"
        # What the file computes in, apart from its products in int8.
        is_bfloat16 = self.model.compute_dtype == "bfloat16" and not is_int8
        if is_int8:
            model = runtimes.quantize(model, self.calibration, self.model)
        elif is_bfloat16:
            runtimes.store_in_bfloat16(model)
        run = runtimes.compile_openvino(model, is_bfloat16)
        if self.kind.reads_one_sequence and isinstance(self.tokenizer, AlbertTokenizer):
            model = openvino_text.add_tokenizer(
                model, self.tokenizer, self.kind.texts, self.kind.max_seq_length
            )
        specs = runtimes.openvino_specs(model)
        runtimes.write_openvino(model, folder)
        return "bfloat16" if is_bfloat16 else "float32", specs, run, unchecked.serve

    def _describe(
        self, folder: str, stored_in: str, specs: Sequence[Specs], evaluations: Evaluations
    ) -> None:
        """Writes the assets and the model card.

        `specs` are the inputs and the outputs, or empty. `evaluations` are those of the written file.
        """
        contents = tokenizer_files(self.tokenizer, self.model.config, self.kind)
        if self.kind.labels:
            contents[LABELS_FILE] = "".join(f"{label}\n" for label in self.kind.labels).encode()
        is_onnx = self.form == "onnx"
        place = folder if is_onnx else assets_folder(folder)
        write_description(place, self.model, self.kind, contents)
        evaluations = {**evaluations, **self.evaluations}
        card = "\n\n".join(self._card_sections(stored_in, specs, evaluations)) + "\n"
        files.write_text(os.path.join(folder, CARD_FILE), card)

    def _card_sections(
        self, stored_in: str, specs: Sequence[Specs], evaluations: Evaluations
    ) -> Iterator[str]:
        """Yields the paragraphs of the model card, in Markdown."""
        config, tokenizer = self.model.encoder.config, self.tokenizer
        is_saved_model = self.form == "saved_model"
        yield f"# {type(self.model).__name__}"
        yield (
            f"{config.num_hidden_layers} layers of width {config.hidden_size}, "
            f"{config.num_attention_heads} heads, feed-forward width {config.intermediate_size}, "
            f"embeddings of width {config.embedding_size}, sharing {config.sharing}, "
            f"{config.max_position_embeddings} positions; {self.model.count_params():,} parameters. The "
            f"vocabulary has {tokenizer.vocab_size:,} pieces, "
            f"{'lower-cased' if tokenizer.lower_case else 'cased'}; the SHA-256 of its file is "
            f"`{tokenizer.vocabulary_sha256}`. Exported with TensorFlow {tf.__version__}."
        )
        is_rounded = stored_in in ("float16", "int8")
        yield (
            f"Matrices are stored in {stored_in}."
            + " Metrics from training are those of the weights before this rounding." * is_rounded
        )
        fields = {name: value for name, value in self.kind.to_dict().items() if name != "labels"}
        yield "## Kind"
        yield "\n".join(f"- {name}: {value}" for name, value in fields.items())
        if specs:
            yield f"## {'Signature `serving_default`' if is_saved_model else 'Inputs and outputs'}"
            rows = [
                f"| {what} | `{name}` | {_describe_type(spec)} |"
                for what, named in zip(("input", "output"), specs, strict=True)
                for name, spec in named.items()
            ]
            yield "\n".join(["| | name | type |", "|---|---|---|", *rows])
        if self.kind.labels:
            yield "## Labels"
            yield "\n".join(f"- {label}" for label in self.kind.labels)
        yield "## Metrics"
        yield _metrics_table(evaluations)
        yield "## Files"
        use = " `albert_tf.load` predicts, evaluates and embeds with this folder."
        place = "This folder" if self.form == "onnx" else "`assets/`"
        yield (
            f"{place} holds the config, which also names the kind of the model, and the vocabulary."
            + use * is_saved_model
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
