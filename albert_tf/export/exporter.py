"""Exports a trained model of any kind in a version folder.

<export_dir>/ids/<n>/       SavedModel, ids -> predictions; needs TensorFlow alone
<export_dir>/text/<n>/      SavedModel, raw text -> predictions; needs TensorFlow Text's operators
<export_dir>/tflite/<n>/    model.tflite, ids of one text -> predictions, for LiteRT
<export_dir>/openvino/<n>/  model.xml and model.bin, raw text or ids -> predictions, for OpenVINO
<export_dir>/onnx/<n>/      model.onnx, ids -> predictions, for ONNX Runtime

Each has a model card, and assets: the config, the vocabulary, the labels one per line, `task.json`.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.export import model_card, openvino_model, runtimes, warmup
from albert_tf.export.ids_model import IdsModel, UncheckedModel, input_specs
from albert_tf.export.text_model import TextModel
from albert_tf.export.version_folders import (
    Assets,
    asset_files,
    can_write_text,
    encoder_assets,
    lines_asset,
    next_version,
    write_assets,
    write_version,
)
from albert_tf.tokenization import AlbertTokenizer, Tokenizer

LABELS_FILE = "labels.txt"

Form = Literal["saved_model", "tflite", "openvino", "onnx"]
Weights = Literal["float16", "int8"]

# Forms whose files are quantized as they are written, and can be evaluated.
OF_RUNTIMES = ("openvino", "onnx")


@dataclasses.dataclass(frozen=True)
class ExportDetails:
    """The form of an exported model, and what accompanies it.

    Attributes:
        export_format: SavedModels, or a file for LiteRT, OpenVINO or ONNX Runtime.
        export_weights: type of the stored matrices: float16 (LiteRT only) or int8; None for the type that
            the model computes in.
        assets: further assets, file name -> content.
        evaluations: for the model card: name of the evaluated data -> metrics.
        calibration: inputs of the model, int32 (1, S) each, with choices (1, C, S). OpenVINO in int8
            estimates the ranges of activations from them.
        evaluate: evaluates the file for OpenVINO or ONNX Runtime, given as a function from a batch to
            its outputs, for the model card.
    """

    export_format: Form = "saved_model"
    export_weights: Weights | None = None
    assets: Assets = dataclasses.field(default_factory=dict)
    evaluations: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    calibration: Sequence[runtimes.Arrays] = ()
    evaluate: Callable[[runtimes.Predict], Mapping[str, float]] | None = None


_SAVED_MODELS = ExportDetails()


def export(
    model: keras.Model,
    kind: Any,
    tokenizer: Tokenizer,
    export_dir: str,
    details: ExportDetails = _SAVED_MODELS,
) -> dict[str, str]:
    """Writes the next version of a trained model; its number is one above the greatest in `export_dir`.

    Args:
        model: the model.
        kind: its `albert_tf.kinds.Kind`.
        tokenizer: the tokenizer that the model was trained with.
        export_dir: parent of the models' folders.
        details: the form, and what accompanies the model.

    Returns:
        The written folders: `ids` and, with TensorFlow Text, `text`; or the one of another form.

    Raises:
        InputError: the model has no such form, or a package that writes it is missing.
        StoppedError: the file system refuses.
    """
    kind.check_export(details.export_format, details.export_weights, tokenizer)
    write = {
        "saved_model": _write_saved_models,
        "tflite": _write_tflite,
        "openvino": _write_openvino,
        "onnx": _write_onnx,
    }[details.export_format]
    return write(_Export(model, kind, tokenizer, export_dir, details))


@dataclasses.dataclass(frozen=True)
class _Export:
    """The arguments of `export`."""

    model: keras.Model
    kind: Any
    tokenizer: Tokenizer
    export_dir: str
    details: ExportDetails

    @property
    def assets(self) -> Assets:
        """Everything in `assets/`."""
        encoder = encoder_assets(self.model.encoder.config, self.tokenizer)
        assets = {**encoder, **self.details.assets, **self.kind.assets()}
        if self.kind.labels:
            assets[LABELS_FILE] = lines_asset(self.kind.labels)
        return assets

    def make_unchecked(self) -> UncheckedModel:
        """Returns what converters read."""
        choices = self.kind.num_choices
        shape = (None, None) if choices is None else (None, choices, None)
        return UncheckedModel(self.model, self.kind.outputs, shape)

    def evaluate(self, run: runtimes.Run, signature: Callable) -> "_Export":
        """Returns the same with the metrics of the file, if the details say how to evaluate it."""
        if self.details.evaluate is None:
            return self
        metrics = self.details.evaluate(runtimes.in_graph(run, signature))
        evaluations = {"as exported": metrics, **self.details.evaluations}
        return dataclasses.replace(
            self, details=dataclasses.replace(self.details, evaluations=evaluations)
        )

    def write_card(self, folder: str, stored_in: str, *specs: model_card.Specs) -> None:
        """Writes the card. `specs` are the inputs and the outputs; for LiteRT there are none."""
        card = model_card.model_card(
            self.model,
            self.kind,
            self.tokenizer,
            stored_in,
            self.details.evaluations,
            specs,
            is_saved_model=self.details.export_format == "saved_model",
        )
        files.write_text(os.path.join(folder, model_card.FILE_NAME), card)


def _write_saved_models(this: _Export) -> dict[str, str]:
    stored_in = this.details.export_weights or this.model.compute_dtype
    with asset_files(this.assets) as paths_of_assets:
        is_int8 = this.details.export_weights == "int8"
        ids_model = IdsModel(
            this.model, this.kind.outputs, paths_of_assets, is_int8, this.kind.num_choices
        )
        modules = {"ids": ids_model}
        if can_write_text(this.export_dir, "text"):
            modules["text"] = TextModel(ids_model, this.kind, this.tokenizer)
        paths = next_version(this.export_dir, modules)
        with write_version(paths) as incomplete:
            for name, module in modules.items():
                signature, folder = module.serve, incomplete[name]
                with files.explain_refusal(paths[name]):
                    tf.saved_model.save(module, folder, signatures={"serving_default": signature})
                specs = input_specs(signature), signature.structured_outputs
                this.write_card(folder, stored_in, *specs)
                if name == "text":
                    warmup.write_batching_parameters(folder)
                if warmup.is_available():
                    requests = warmup.sample_requests(signature)
                    warmup.write_warmup_requests(folder, signature, requests)
    return paths


def _write_tflite(this: _Export) -> dict[str, str]:
    stored_in = this.details.export_weights or "float32"
    paths = next_version(this.export_dir, ["tflite"])
    with write_version(paths) as incomplete:
        folder = incomplete["tflite"]
        write_assets(folder, this.assets)
        path = os.path.join(folder, runtimes.TFLITE_FILE)
        of_model = this.model, this.kind.outputs
        runtimes.write_tflite(*of_model, path, stored_in, this.kind.max_seq_length)
        this.write_card(folder, stored_in)
    return paths


def _write_openvino(this: _Export) -> dict[str, str]:
    is_int8 = this.details.export_weights == "int8"
    if is_int8 and not this.details.calibration:
        raise InputError(
            "export_weights=int8: export_format=openvino needs inputs as `calibration`"
        )
    paths = next_version(this.export_dir, ["openvino"])
    unchecked = this.make_unchecked()
    # The type that the file computes in, apart from its products in int8.
    precision = "float32"
    model = openvino_model.convert(unchecked)
    if is_int8:
        model = openvino_model.quantize(model, this.details.calibration, this.model)
    elif this.model.compute_dtype == "bfloat16":
        precision = "bfloat16"
        openvino_model.store_in_bfloat16(model)
    run = openvino_model.compile_openvino(model, precision)
    this = this.evaluate(run, unchecked.serve)
    if isinstance(this.tokenizer, AlbertTokenizer):
        model = this.kind.add_openvino_tokenizer(model, this.tokenizer)
    inputs = openvino_model.input_specs(model)
    with write_version(paths) as incomplete:
        folder = incomplete["openvino"]
        write_assets(folder, this.assets)
        openvino_model.write_openvino(model, folder)
        stored_in = this.details.export_weights or precision
        this.write_card(folder, stored_in, inputs, unchecked.serve.structured_outputs)
    return paths


def _write_onnx(this: _Export) -> dict[str, str]:
    unchecked = this.make_unchecked()
    signature = unchecked.serve
    paths = next_version(this.export_dir, ["onnx"])
    with write_version(paths) as incomplete:
        folder = incomplete["onnx"]
        write_assets(folder, this.assets)
        path = os.path.join(folder, runtimes.ONNX_FILE)
        runtimes.write_onnx(unchecked, path, this.details.export_weights == "int8")
        this = this.evaluate(runtimes.load_onnx(path), signature)
        specs = input_specs(signature), signature.structured_outputs
        this.write_card(folder, this.details.export_weights or "float32", *specs)
    return paths
