"""Exports trained models in version folders.

<export_dir>/ids/<n>/       SavedModel, ids -> predictions; needs TensorFlow alone
<export_dir>/text/<n>/      SavedModel, raw text -> predictions; needs TensorFlow Text's operators
<export_dir>/tflite/<n>/    model.tflite, ids of one text -> predictions, for LiteRT

Each has a model card, and assets: the config, the vocabulary, the labels one per line.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.data.squad.conventions import AnswerConfig
from albert_tf.errors import InputError
from albert_tf.export import model_card, tflite, warmup
from albert_tf.export.answer_model import AnswerTextModel
from albert_tf.export.early_exit import EarlyExitIdsModel
from albert_tf.export.ids_model import (
    IdsModel,
    Outputs,
    class_outputs,
    examples_signature,
    score_outputs,
    span_outputs,
)
from albert_tf.export.text_models import ChoiceTextModel, TextModel
from albert_tf.export.version_folders import (
    Assets,
    asset_files,
    can_write_text,
    encoder_assets,
    json_asset,
    lines_asset,
    next_version,
    write_assets,
    write_version,
)
from albert_tf.models import (
    AlbertClassifier,
    AlbertConditionalSpanLabeler,
    AlbertEarlyExitClassifier,
    AlbertMultipleChoice,
    AlbertSpanLabeler,
)
from albert_tf.tokenization import Tokenizer

LABELS_FILE = "labels.txt"
_CONFIG_FILE = "answer_rule.json"

Form = Literal["saved_model", "tflite"]
Weights = Literal["float16", "int8"]


@dataclasses.dataclass(frozen=True)
class ExportDetails:
    """The form of an exported model, and what accompanies it.

    Attributes:
        form: SavedModels, or a file for LiteRT.
        weights: type of the stored matrices: float16 (LiteRT only) or int8; None for the type that the
            model computes in.
        assets: further assets, file name -> content.
        evaluations: for the model card: name of the evaluated data -> metrics.
    """

    form: Form = "saved_model"
    weights: Weights | None = None
    assets: Assets = dataclasses.field(default_factory=dict)
    evaluations: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)

    def add_assets(self, assets: Assets) -> "ExportDetails":
        """Returns the same details with more assets."""
        return dataclasses.replace(self, assets={**self.assets, **assets})


SAVED_MODELS = ExportDetails()


def export_classifier(
    model: AlbertClassifier,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes the next version of a classifier.

    Its number is one above the greatest in `export_dir`.

    Args:
        model: the classifier.
        labels: names of the classes.
        tokenizer: the tokenizer that the model was trained with.
        export_dir: parent of the models' folders.
        max_seq_length: maximum number of tokens of the text model and of the file for LiteRT.
        pairs: whether the text model has a `text_b`.
        details: the form, and what accompanies the model.

    Returns:
        The written folders: `ids` and, with TensorFlow Text, `text`; or `tflite`.

    Raises:
        InputError: the model has no such form.
        StoppedError: the file system refuses.
    """
    make_text_model = functools.partial(
        TextModel, tokenizer=tokenizer, max_seq_length=max_seq_length, pairs=pairs
    )
    exported = _Exportable(model, class_outputs(labels), make_text_model, max_seq_length, labels)
    return exported.write(tokenizer, export_dir, details)


def export_regressor(
    model: AlbertClassifier,
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    pairs: bool,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes the next version of a model with one class, whose logit is the output `score`.

    The arguments, the result and the errors are those of `export_classifier`.
    """
    make_text_model = functools.partial(
        TextModel, tokenizer=tokenizer, max_seq_length=max_seq_length, pairs=pairs
    )
    exported = _Exportable(model, score_outputs, make_text_model, max_seq_length)
    return exported.write(tokenizer, export_dir, details)


def export_multiple_choice(
    model: AlbertMultipleChoice,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    export_dir: str,
    max_seq_length: int,
    max_qa_length: int,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes the next version of a multiple choice model, as SavedModels only.

    They take `article`, `question` and `options`, or ids (B, C, S).

    Args:
        model: the model.
        labels: the letters of the choices.
        tokenizer: the tokenizer that the model was trained with.
        export_dir: parent of the models' folders.
        max_seq_length: maximum number of tokens of a sequence in the text model.
        max_qa_length: maximum number of tokens of question and option in the text model.
        details: the form, and what accompanies the model.

    Returns:
        The written folders: `ids` and, with TensorFlow Text, `text`.

    Raises:
        InputError: the model has no such form.
        StoppedError: the file system refuses.
    """
    make_text_model = functools.partial(
        ChoiceTextModel,
        tokenizer=tokenizer,
        num_choices=len(labels),
        max_seq_length=max_seq_length,
        max_qa_length=max_qa_length,
    )
    exported = _Exportable(
        model, class_outputs(labels), make_text_model, max_seq_length, labels, len(labels)
    )
    return exported.write(tokenizer, export_dir, details)


def export_question_answering(
    model: AlbertSpanLabeler | AlbertConditionalSpanLabeler,
    tokenizer: Tokenizer,
    export_dir: str,
    config: AnswerConfig,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes the next version of a model that answers questions.

    SavedModels take `question` and `context`, or the ids of windows.

    Args:
        model: the model.
        tokenizer: the tokenizer that the model was trained with.
        export_dir: parent of the models' folders.
        config: how the text model cuts passages and chooses answers; also written as an asset.
        details: the form, and what accompanies the model.

    Returns:
        The written folders: `ids` and, with TensorFlow Text, `text`; or `tflite`.

    Raises:
        InputError: the model has no such form, or the vocabulary is WordPiece.
        StoppedError: the file system refuses.
    """
    make_text_model = functools.partial(AnswerTextModel, tokenizer=tokenizer, config=config)
    config_asset = {_CONFIG_FILE: json_asset(dataclasses.asdict(config))}
    exported = _Exportable(model, span_outputs, make_text_model, config.max_seq_length)
    return exported.write(tokenizer, export_dir, details.add_assets(config_asset))


@dataclasses.dataclass(frozen=True)
class _Exportable:
    """All that differs between exported models.

    Attributes:
        model: the model.
        outputs: selects the outputs to return.
        make_text_model: makes the text model of an ids model.
        max_seq_length: maximum number of tokens of a sequence, where the length is fixed.
        labels: names of the classes; empty for other models.
        num_choices: C; None if an example is one sequence.
    """

    model: keras.Model
    outputs: Outputs
    make_text_model: Callable[[IdsModel], tf.Module]
    max_seq_length: int
    labels: Sequence[str] = ()
    num_choices: int | None = None

    def write(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails
    ) -> dict[str, str]:
        """Writes the next version in the form that `details` asks for, and returns its folders."""
        assets = {**encoder_assets(self.model.encoder.config, tokenizer), **details.assets}
        if self.labels:
            assets[LABELS_FILE] = lines_asset(self.labels)
        if details.form == "tflite":
            return self._write_tflite(tokenizer, export_dir, details, assets)
        return self._write_saved_models(tokenizer, export_dir, details, assets)

    def _write_saved_models(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails, assets: Assets
    ) -> dict[str, str]:
        if details.weights == "float16":
            raise InputError("weights='float16': SavedModels have no such form; expected int8")
        stored_in = details.weights or self.model.compute_dtype
        with asset_files(assets) as paths_of_assets:
            is_int8 = details.weights == "int8"
            if isinstance(self.model, AlbertEarlyExitClassifier):
                ids_model = EarlyExitIdsModel(self.model, self.outputs, paths_of_assets, is_int8)
            else:
                ids_model = IdsModel(
                    self.model, self.outputs, paths_of_assets, is_int8, self.num_choices
                )
            modules = {"ids": ids_model}
            if can_write_text(export_dir, "text"):
                modules["text"] = self.make_text_model(ids_model)
            paths = next_version(export_dir, modules)
            with write_version(paths) as incomplete:
                for name, module in modules.items():
                    signatures = {"serving_default": module.signature}
                    if name == "ids":
                        signatures["serving_examples"] = examples_signature(
                            ids_model, self.num_choices
                        )
                    if isinstance(self.model, AlbertEarlyExitClassifier):
                        signatures["serving_patience"] = module.patience_signature
                    with files.explain_refusal(paths[name]):
                        tf.saved_model.save(module, incomplete[name], signatures=signatures)
                    self._write_card(incomplete[name], tokenizer, details, signatures, stored_in)
                    if name == "text":
                        warmup.write_batching_parameters(incomplete[name])
                    if warmup.is_available():
                        requests = warmup.sample_requests(module.signature)
                        warmup.write_warmup_requests(incomplete[name], module.signature, requests)
        return paths

    def _write_tflite(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails, assets: Assets
    ) -> dict[str, str]:
        if self.num_choices is not None:
            raise InputError("form='tflite': multiple choice has no form for LiteRT")
        if isinstance(self.model, AlbertEarlyExitClassifier):
            raise InputError("form='tflite': early exit has no form for LiteRT")
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

    def _write_card(
        self,
        folder: str,
        tokenizer: Tokenizer,
        details: ExportDetails,
        signatures: model_card.Signatures,
        stored_in: str,
    ) -> None:
        card = model_card.model_card(
            self.model, tokenizer, signatures, self.labels, stored_in, details.evaluations
        )
        files.write_text(os.path.join(folder, model_card.FILE_NAME), card)
