"""Writes a model in one of its forms, with its assets and model card."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError, name_place
from albert_tf.export import model_card, warmup
from albert_tf.export.runtimes import onnx_model, openvino_model, runtime, tflite
from albert_tf.export.saved_models.ids_model import (
    IdsModel,
    Outputs,
    UncheckedModel,
    input_specs,
)
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

if TYPE_CHECKING:
    import openvino

LABELS_FILE = "labels.txt"

Form = Literal["saved_model", "tflite", "openvino", "onnx"]
Weights = Literal["float16", "int8"]

# Forms whose files are quantized as they are written, and can be evaluated.
OF_RUNTIMES = ("openvino", "onnx")


@dataclasses.dataclass(frozen=True)
class ExportDetails:
    """The form of an exported model, and what accompanies it.

    Attributes:
        form: SavedModels, or a file for LiteRT, OpenVINO or ONNX Runtime.
        weights: type of the stored matrices: float16 (LiteRT only) or int8; None for the type that the
            model computes in.
        assets: further assets, file name -> content.
        evaluations: for the model card: name of the evaluated data -> metrics.
        calibration: inputs of the model, int32 (1, S) each, with choices (1, C, S). OpenVINO in int8
            estimates the ranges of activations from them.
        evaluate: evaluates the file for OpenVINO or ONNX Runtime, given as a function from a batch to
            its outputs, for the model card.
    """

    form: Form = "saved_model"
    weights: Weights | None = None
    assets: Assets = dataclasses.field(default_factory=dict)
    evaluations: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    calibration: Sequence[runtime.Arrays] = ()
    evaluate: Callable[[runtime.Predict], Mapping[str, float]] | None = None

    def add_assets(self, assets: Assets) -> "ExportDetails":
        """Returns the same details with more assets."""
        return dataclasses.replace(self, assets={**self.assets, **assets})


@dataclasses.dataclass(frozen=True)
class Exportable:
    """All that differs between exported models.

    Attributes:
        model: the model.
        outputs: selects the outputs to return.
        make_text_model: makes the text model of an ids model.
        max_seq_length: maximum number of tokens of a sequence, where the length is fixed.
        labels: names of the classes; empty for other models.
        num_choices: C; None if an example is one sequence.
        add_tokenizer: puts the tokenizer in front of OpenVINO's model; None if that takes ids only.
    """

    model: keras.Model
    outputs: Outputs
    make_text_model: Callable[[IdsModel], tf.Module]
    max_seq_length: int
    labels: Sequence[str] = ()
    num_choices: int | None = None
    add_tokenizer: Callable[["openvino.Model", AlbertTokenizer], "openvino.Model"] | None = None

    def write(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails
    ) -> dict[str, str]:
        """Writes the next version in the form that `details` asks for, and returns its folders."""
        assets = {**encoder_assets(self.model.encoder.config, tokenizer), **details.assets}
        if self.labels:
            assets[LABELS_FILE] = lines_asset(self.labels)
        with name_place(f"form='{details.form}'"):
            runtime.check_packages(details.form)
        write = {
            "saved_model": self._write_saved_models,
            "tflite": self._write_tflite,
            "openvino": self._write_openvino,
            "onnx": self._write_onnx,
        }[details.form]
        return write(tokenizer, export_dir, details, assets)

    def _write_saved_models(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails, assets: Assets
    ) -> dict[str, str]:
        if details.weights == "float16":
            raise InputError("weights='float16': SavedModels have no such form; expected int8")
        stored_in = details.weights or self.model.compute_dtype
        with asset_files(assets) as paths_of_assets:
            is_int8 = details.weights == "int8"
            ids_model = IdsModel(
                self.model, self.outputs, paths_of_assets, is_int8, self.num_choices
            )
            modules = {"ids": ids_model}
            if can_write_text(export_dir, "text"):
                modules["text"] = self.make_text_model(ids_model)
            paths = next_version(export_dir, modules)
            with write_version(paths) as incomplete:
                for name, module in modules.items():
                    signature = module.signature
                    with files.explain_refusal(paths[name]):
                        tf.saved_model.save(
                            module, incomplete[name], signatures={"serving_default": signature}
                        )
                    specs = input_specs(signature), signature.structured_outputs
                    described = {"Signature `serving_default`": specs}
                    self._write_card(incomplete[name], tokenizer, details, described, stored_in)
                    if name == "text":
                        warmup.write_batching_parameters(incomplete[name])
                    if warmup.is_available():
                        requests = warmup.sample_requests(signature)
                        warmup.write_warmup_requests(incomplete[name], signature, requests)
        return paths

    def _write_tflite(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails, assets: Assets
    ) -> dict[str, str]:
        if self.num_choices is not None:
            raise InputError("form='tflite': multiple choice has no form for LiteRT")
        stored_in = details.weights or "float32"
        paths = next_version(export_dir, ["tflite"])
        with write_version(paths) as incomplete:
            folder = incomplete["tflite"]
            write_assets(folder, assets)
            tflite.write_tflite(
                self.model,
                self.outputs,
                os.path.join(folder, tflite.FILE_NAME),
                stored_in,
                self.max_seq_length,
            )
            self._write_card(folder, tokenizer, details, {}, stored_in)
        return paths

    def _write_openvino(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails, assets: Assets
    ) -> dict[str, str]:
        _check_weights(details)
        if details.weights == "int8" and not details.calibration:
            raise InputError("weights='int8': form='openvino' needs inputs as `calibration`")
        paths = next_version(export_dir, ["openvino"])
        unchecked = self._make_unchecked()
        signature = unchecked.signature
        # The type that the file computes in, apart from its products in int8.
        precision = "float32"
        model = openvino_model.convert(unchecked)
        if details.weights == "int8":
            model = openvino_model.quantize(model, details.calibration, self.model)
        elif self.model.compute_dtype == "bfloat16":
            precision = "bfloat16"
            openvino_model.store_in_bfloat16(model)
        run = openvino_model.compile_openvino(model, precision)
        details = _evaluate(details, run, signature)
        if self.add_tokenizer and isinstance(tokenizer, AlbertTokenizer):
            model = self.add_tokenizer(model, tokenizer)
        inputs = openvino_model.input_specs(model)
        with write_version(paths) as incomplete:
            folder = incomplete["openvino"]
            write_assets(folder, assets)
            openvino_model.write_openvino(model, folder)
            described = {"Inputs and outputs": (inputs, signature.structured_outputs)}
            self._write_card(folder, tokenizer, details, described, details.weights or precision)
        return paths

    def _write_onnx(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails, assets: Assets
    ) -> dict[str, str]:
        _check_weights(details)
        unchecked = self._make_unchecked()
        signature = unchecked.signature
        paths = next_version(export_dir, ["onnx"])
        with write_version(paths) as incomplete:
            folder = incomplete["onnx"]
            write_assets(folder, assets)
            path = os.path.join(folder, onnx_model.FILE_NAME)
            onnx_model.write_onnx(unchecked, path, details.weights == "int8")
            details = _evaluate(details, onnx_model.load_onnx(path), signature)
            described = {
                "Inputs and outputs": (input_specs(signature), signature.structured_outputs)
            }
            stored_in = details.weights or "float32"
            self._write_card(folder, tokenizer, details, described, stored_in)
        return paths

    def _make_unchecked(self) -> UncheckedModel:
        shape = (None, None) if self.num_choices is None else (None, self.num_choices, None)
        return UncheckedModel(self.model, self.outputs, shape)

    def _write_card(
        self,
        folder: str,
        tokenizer: Tokenizer,
        details: ExportDetails,
        signatures: model_card.Signatures,
        stored_in: str,
    ) -> None:
        card = model_card.model_card(
            self.model,
            tokenizer,
            signatures,
            self.labels,
            stored_in,
            details.evaluations,
            is_saved_model=details.form == "saved_model",
        )
        files.write_text(os.path.join(folder, model_card.FILE_NAME), card)


def _check_weights(details: ExportDetails) -> None:
    if details.weights == "float16":
        raise InputError(
            f"weights='float16': form='{details.form}' has no such form; expected int8"
        )


def _evaluate(
    details: ExportDetails,
    run: runtime.Run,
    signature: tf.types.experimental.ConcreteFunction,
) -> ExportDetails:
    """Returns the details with the metrics of the file, if they say how to evaluate it."""
    if details.evaluate is None:
        return details
    metrics = details.evaluate(runtime.in_graph(run, signature))
    evaluations = {"as exported": metrics, **details.evaluations}
    return dataclasses.replace(details, evaluations=evaluations)
