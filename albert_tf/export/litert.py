"""Files for LiteRT, once TensorFlow Lite."""

import os
import tempfile
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.export.saved_models import INPUTS, UncheckedModel
from albert_tf.export.writers import Exported, Written, numeric
from albert_tf.options.export_forms import Weights

TFLITE_FILE = "model.tflite"


def write(exported: Exported, folders: Mapping[str, str]) -> dict[str, Written]:
    """Writes the file of an exported model into its version folder."""
    path = os.path.join(folders["tflite"], TFLITE_FILE)
    write_tflite(exported.model, exported.kind, path, exported.weights)
    return {"tflite": Written()}


def write_tflite(model: keras.Model, kind: Any, path: str, weights: Weights | None) -> None:
    """Writes a .tflite file with the signature `serving_default` of the SavedModel for ids.

    LiteRT runs it with built-in operators only. The converter reads a SavedModel for one text of a fixed
    length: from a Keras 3 model it would lose the values of the variables, and it cannot convert all
    operators of a model with a free length.

    Its inputs are `input_ids`, `input_mask` and `segment_ids`, int32 (1, S), one text padded to the
    kind's `max_seq_length`. Its outputs are those of the SavedModel without the names of labels. It
    stores each weight once. Without `weights` they are float32, whatever the model computes in; float16
    becomes float32 when the file is loaded. int8 has a scale per output of a dense layer, and rounds the
    layer's inputs to int8 as it runs ("dynamic range": each text has scales of its own).
    """
    positions = model.encoder.config.max_position_embeddings
    if kind.max_seq_length > positions:
        raise InputError(
            f"max_seq_length={kind.max_seq_length}: expected at most {positions}, the model's positions"
        )

    def predict(model, inputs):
        return numeric(kind.outputs(model(inputs, training=False)))

    shape = (1, kind.max_seq_length)
    specs = {name: tf.TensorSpec(shape, tf.int32, name) for name in INPUTS}
    module = UncheckedModel(model, predict, specs)
    with tempfile.TemporaryDirectory() as folder:
        with files.explain_refusal(path):
            tf.saved_model.save(module, folder, signatures=module.serve)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if weights:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if weights == "float16":
            converter.target_spec.supported_types = [tf.float16]
        content = converter.convert()
    files.write_bytes(path, content)
