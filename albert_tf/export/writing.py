"""Version folders of a model, as TensorFlow Serving watches them.

<export_dir>/ids/<n>/       SavedModel, ids -> predictions; needs TensorFlow alone
<export_dir>/text/<n>/      SavedModel, raw text -> predictions; needs TensorFlow Text's operators
<export_dir>/tflite/<n>/    model.tflite, ids of one text -> predictions, for LiteRT

Each has a model card, and in `assets/` the shape of the model, its vocabulary and the labels, one a line.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.export import batching, model_card, tflite, versions, warmup
from albert_tf.export.assets import Assets, asset_files, encoder_assets, folder, lines_asset
from albert_tf.export.examples import examples_signature
from albert_tf.export.signatures import IdsModel, Outputs
from albert_tf.tokenization import AlbertTokenizer, Tokenizer

LABELS_FILE = "labels.txt"
TFLITE_FILE = "model.tflite"

Form = Literal["saved_model", "tflite"]
Weights = Literal["float16", "int8"]


@dataclasses.dataclass(frozen=True)
class ExportDetails:
    """In which form a model is written, and what goes along with it.

    Attributes:
        form: SavedModels, or a file for LiteRT.
        weights: what matrices are stored in: float16 in a file for LiteRT, int8 in either; None for what
            the model computes in.
        assets: name of a file -> what is in it.
        evaluations: for the model card: what was evaluated -> its metrics.
    """

    form: Form = "saved_model"
    weights: Weights | None = None
    assets: Assets = dataclasses.field(default_factory=dict)
    evaluations: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)


SAVED_MODELS = ExportDetails()


@dataclasses.dataclass(frozen=True)
class Exportable:
    """All in which exported models differ.

    Attributes:
        model: the model.
        outputs: what to give of what it gives.
        make_text_model: puts text before ids.
        max_seq_length: tokens of a sequence at most, where the length is fixed.
        labels: names of the classes; none of other models.
        num_choices: C; None where an example is one sequence.
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
        """Writes the next version of the form that is asked for, and returns its folders.

        Raises:
            InputError: the model has no such form, or the file system refuses.
        """
        assets = {**encoder_assets(self.model.encoder.config, tokenizer), **details.assets}
        if self.labels:
            assets[LABELS_FILE] = lines_asset(self.labels)
        write = {"saved_model": self._write_saved_models, "tflite": self._write_tflite}
        return write[details.form](tokenizer, export_dir, details, assets)

    def _write_saved_models(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails, assets: Assets
    ) -> dict[str, str]:
        if details.weights == "float16":
            raise InputError("a SavedModel has no weights of float16; expected int8 or none")
        stored_in = details.weights or self.model.compute_dtype
        with asset_files(assets) as of_assets:
            is_int8 = details.weights == "int8"
            ids_model = IdsModel(self.model, self.outputs, of_assets, is_int8, self.num_choices)
            examples = examples_signature(ids_model, self.num_choices)
            modules = {"ids": (ids_model, {"serving_examples": examples})}
            if isinstance(tokenizer, AlbertTokenizer):
                modules["text"] = self.make_text_model(ids_model), {}
            paths = versions.next_version(export_dir, modules)
            with versions.write_version(paths) as incomplete:
                for name, (module, more_signatures) in modules.items():
                    signatures = {"serving_default": module.signature, **more_signatures}
                    with files.explain_refusal(paths[name]):
                        tf.saved_model.save(module, incomplete[name], signatures=signatures)
                    self._write_card(incomplete[name], tokenizer, details, signatures, stored_in)
                    if name == "text":
                        path = os.path.join(incomplete[name], batching.FILE_NAME)
                        files.write_text(path, batching.PARAMETERS)
                    if warmup.is_available():
                        requests = warmup.sample_requests(module.signature)
                        warmup.write_warmup_requests(incomplete[name], module.signature, requests)
        return paths

    def _write_tflite(
        self, tokenizer: Tokenizer, export_dir: str, details: ExportDetails, assets: Assets
    ) -> dict[str, str]:
        if self.num_choices is not None:
            raise InputError("multiple choice has no form for LiteRT; expected SavedModels")
        stored_in = details.weights or "float32"
        paths = versions.next_version(export_dir, ["tflite"])
        with versions.write_version(paths) as incomplete:
            path = incomplete["tflite"]
            files.make_directory(folder(path))
            for name, content in assets.items():
                files.write_bytes(os.path.join(folder(path), name), content)
            tflite.write_tflite(
                self.model,
                self.outputs,
                os.path.join(path, TFLITE_FILE),
                stored_in,
                self.max_seq_length,
            )
            self._write_card(path, tokenizer, details, {}, stored_in)
        return paths

    def _write_card(
        self,
        path: str,
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
        )
        files.write_text(os.path.join(path, model_card.FILE_NAME), card)
