"""The output formats of a conversion: the checkpoint, its config and its vocabulary.

They are written under names that end in `.incomplete`, read back and checked, and then renamed together.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf import conversion, files
from albert_tf.checkpoints.hugging_face import layout_of, model_type_of
from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.checkpoints.names import stored_as_original
from albert_tf.checkpoints.tensors import Layout, checkpoint_paths, stored_by_path
from albert_tf.config import ALBERT_CONFIG_FILE
from albert_tf.export import reusable
from albert_tf.export.onnx_models import ENCODER_OUTPUTS, load_onnx, onnx_module, write_onnx
from albert_tf.kinds import Kind
from albert_tf.model_folder import CONFIG_FILE
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.models.base_model import BaseModel
from albert_tf.options.models import WeightType
from albert_tf.tasks.conversion_options import TargetName
from albert_tf.tasks.paths import refuse_existing
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.hugging_face_tokenizer import (
    check_hugging_face_files,
    tokenizer_files,
    vocabulary_contents,
)
from albert_tf.tokenization.tokenizer_settings import TOKENIZER_FILE

# Maps the model's inputs to some or all of its outputs.
Predict = Callable[[Mapping[str, np.ndarray]], Any]
# Weights read back from the written files, in the order of the model's, and the outputs with them.
Written = tuple[Sequence[Any], Predict]


class CheckpointTarget:
    """TensorFlow 1's checkpoints: files with one prefix, next to config and vocabulary.

    They have no place for the kind, the type of the weights and advice.
    """

    def layout(self, model: BaseModel, kind: Kind | None) -> Layout:
        """Returns how the format stores variables; refuses models that it does not have."""
        conversion.config_in_tf1(model)
        return stored_as_original

    def part_of(self, model: keras.Model) -> keras.Model:
        """Returns the part of a model that the format has a place for."""
        return model

    @contextlib.contextmanager
    def write(
        self, output: str, model: keras.Model, tokenizer: Tokenizer | None, **described: Any
    ) -> Iterator[Written]:
        """Writes a model, yields it as read back, and renames the files on success."""
        files.refuse_for_tensorflow(output)
        contents = {
            ALBERT_CONFIG_FILE: files.to_json(conversion.config_in_tf1(model).to_dict()).encode()
        }
        if tokenizer:
            contents |= vocabulary_contents(tokenizer)
        beside = os.path.dirname(output)
        paths = [*(os.path.join(beside, name) for name in contents), *checkpoint_paths(output)]
        for path in paths:
            refuse_existing("output_checkpoint", path)
        files.make_directory(beside or ".")
        with files.write_together(paths) as folder:
            for name, content in contents.items():
                files.write_bytes(os.path.join(folder, name), content)
            prefix = os.path.join(folder, os.path.basename(output))
            conversion.save_tf1_checkpoint(model, prefix)
            # The original has one name for the heads of two of our models, so the checkpoint cannot tell.
            written = type(model).from_config(model.get_config())
            load_checkpoint(written, prefix).check_complete()
            yield written.weights, written


class HuggingFaceTarget:
    """Hugging Face's folders with config, labels, vocabulary and tokenizer."""

    def part_of(self, model: keras.Model) -> keras.Model:
        """Returns the model, as the format has a place for all of it."""
        return model

    def layout(self, model: BaseModel, kind: Kind | None) -> Layout:
        """Returns how the format stores variables; refuses models that it does not have."""
        conversion.architecture_of(model, kind)
        return layout_of(model_type_of(model.config))

    @contextlib.contextmanager
    def write(
        self,
        output: str,
        model: keras.Model,
        tokenizer: Tokenizer | None,
        kind: Kind | None,
        dtype: WeightType,
        advice: Mapping[str, Any],
        modules: Mapping[str, bytes],
    ) -> Iterator[Written]:
        """Writes a model, yields it as read back, and renames the folder on success.

        `advice` are keys of the config, and `modules` the files of `stored_module_files`.
        """
        # An empty folder may be there.
        if not files.is_folder(output) or files.list_names(output):
            refuse_existing("output_checkpoint", output)
        contents = {}
        if tokenizer:
            contents = tokenizer_files(tokenizer, model.config, kind)
            if TOKENIZER_FILE in contents:
                print(check_hugging_face_files(contents, tokenizer))
        files.make_directory(os.path.dirname(output.rstrip("/")) or ".")
        with files.write_atomically(output) as incomplete:
            conversion.save_model(
                model,
                directory=incomplete,
                kind=kind,
                dtype=dtype,
                contents={**contents, **modules},
                advice=advice,
            )
            yield self._read_back(folder=incomplete, model=model, kind=kind, dtype=dtype)

    def _read_back(
        self, folder: str, model: keras.Model, kind: Kind | None, dtype: WeightType
    ) -> Written:
        config = read_config(os.path.join(folder, CONFIG_FILE))
        written, _ = conversion.load_model(config, folder)
        return written.weights, written


class OnnxTarget(HuggingFaceTarget):
    """Hugging Face's folders with an ONNX file in them."""

    def _read_back(self, folder, model, kind, dtype):
        weights = None if dtype == "float32" else dtype
        path = write_onnx(onnx_module(model, kind), folder, weights)
        stored, _ = super()._read_back(folder, model, kind, dtype)
        return stored, _read_onnx(path, isinstance(model, AlbertPretrainer))


class HubTarget:
    """SavedModels with TensorFlow Hub's API for text, in version folders with config and vocabulary."""

    def layout(self, model: BaseModel, kind: Kind | None) -> Layout:
        """Returns the layout of our own files."""
        return stored_by_path

    def part_of(self, model: keras.Model) -> AlbertEncoder | AlbertPretrainer:
        """Returns the encoder of a model, with its masked-LM head if it has one."""
        if not isinstance(model, AlbertPretrainer):
            return getattr(model, "encoder", model)
        part = AlbertPretrainer(model.encoder, sentence_head=False)
        part.masked_lm_head.set_weights(model.masked_lm_head.get_weights())
        return part

    @contextlib.contextmanager
    def write(
        self,
        output: str,
        model: AlbertEncoder | AlbertPretrainer,
        tokenizer: Tokenizer | None,
        **described: Any,
    ) -> Iterator[Written]:
        """Writes a model, yields it as read back, and renames the folders on success."""
        if tokenizer is None:
            print("no vocabulary, therefore no preprocessor next to the encoder")
        with reusable.write_reusable(model, tokenizer, output) as (_, incomplete):
            yield _read_encoder(incomplete["encoder"], isinstance(model, AlbertPretrainer))


def _read_onnx(path: str, is_pretrainer: bool) -> Predict:
    """Returns what the model of an ONNX file computes, of the outputs that the file has."""
    run = load_onnx(path)

    def predict(inputs):
        ids = {"input_mask": np.ones_like(inputs["input_ids"]), **inputs}
        positions = ids.pop("masked_lm_positions")[..., None]
        outputs = run(ids)
        if is_pretrainer:
            logits = np.take_along_axis(outputs["logits"], positions, axis=1)
            return {"masked_lm_logits": logits}
        if "last_hidden_state" in outputs:
            return {
                name: outputs[theirs]
                for name, theirs in ENCODER_OUTPUTS.items()
                if theirs in outputs
            }
        return outputs.get("logits", outputs)

    return predict


def _read_encoder(path: str, is_pretrainer: bool) -> Written:
    """Returns the weights of a reusable SavedModel, and what its model computes."""
    loaded = tf.saved_model.load(path)

    def predict(inputs):
        ids = {
            "input_word_ids": tf.constant(inputs["input_ids"]),
            "input_mask": tf.ones_like(inputs["input_ids"]),
            "input_type_ids": tf.constant(inputs["segment_ids"]),
        }
        if is_pretrainer:
            positions = tf.constant(inputs["masked_lm_positions"])
            outputs = loaded.mlm({**ids, "masked_lm_positions": positions})
            return {"masked_lm_logits": outputs["mlm_logits"]}
        outputs = loaded(ids)
        del outputs["default"]
        return outputs

    return (loaded.mlm if is_pretrainer else loaded).trainable_variables, predict


# The writers of the formats in `TARGET_FACTS` of `conversion_options`.
TARGETS: dict[TargetName, CheckpointTarget | HuggingFaceTarget | OnnxTarget | HubTarget] = {
    "tf1": CheckpointTarget(),
    "hugging_face": HuggingFaceTarget(),
    "onnx": OnnxTarget(),
    "hub": HubTarget(),
}
