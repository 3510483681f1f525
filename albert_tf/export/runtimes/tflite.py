"""Writes one file for phones, which LiteRT (once TensorFlow Lite) runs with built-in operators only.

The converter reads a SavedModel for one text of a fixed length: from a Keras 3 model it would lose the
values of the variables, and it cannot convert all operators of a model with a free length.
"""

import tempfile
from collections.abc import Mapping
from typing import Literal, NamedTuple

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.export.saved_models.ids_model import Outputs, UncheckedModel
from albert_tf.models import AlbertClassifier, AlbertConditionalSpanLabeler, AlbertSpanLabeler

FILE_NAME = "model.tflite"

WeightType = Literal["float32", "float16", "int8"]
Model = AlbertClassifier | AlbertSpanLabeler | AlbertConditionalSpanLabeler


class _Conversion(NamedTuple):
    """Settings of the converter.

    Attributes:
        optimizations: none, or the default one, which stores weights in fewer bits than float32.
        types: types of the stored weights; int8 without any.
    """

    optimizations: tuple[tf.lite.Optimize, ...] = ()
    types: tuple[tf.DType, ...] = ()


_CONVERSIONS: Mapping[WeightType, _Conversion] = {
    "float32": _Conversion(),
    "float16": _Conversion((tf.lite.Optimize.DEFAULT,), (tf.float16,)),
    "int8": _Conversion((tf.lite.Optimize.DEFAULT,)),
}


def write_tflite(
    model: Model, outputs: Outputs, path: str, weights: WeightType, max_seq_length: int
) -> None:
    """Writes a .tflite file with the signature `serving_default` of the SavedModel for ids.

    Its inputs are `input_ids`, `input_mask` and `segment_ids`, int32 (1, S), one text padded to
    S = `max_seq_length`. Its outputs are those of the SavedModel without the names of labels. It stores
    each weight once.

    Args:
        model: the fine-tuned model; the file computes in float32 whatever the model computes in.
        outputs: selects the outputs to return.
        path: the file.
        weights: type of the stored weights. `float16` becomes float32 when the file is loaded. `int8`
            has a scale per output of a dense layer, and rounds the layer's inputs to int8 as it runs
            ("dynamic range": each text has scales of its own).
        max_seq_length: S, at most the model's number of positions.

    Raises:
        InputError: `weights` is none of these, or the model has fewer positions.
        StoppedError: the file system refuses.
    """
    if weights not in _CONVERSIONS:
        *others, last = _CONVERSIONS
        raise InputError(f"weights='{weights}': a .tflite file has {', '.join(others)} or {last}")
    positions = model.encoder.config.max_position_embeddings
    if not 1 <= max_seq_length <= positions:
        raise InputError(
            f"max_seq_length={max_seq_length}: expected 1 to {positions}, the model's positions"
        )
    module = UncheckedModel(model, _without_strings(outputs), (1, max_seq_length))
    with tempfile.TemporaryDirectory() as folder:
        with files.explain_refusal(path):
            tf.saved_model.save(module, folder, signatures=module.signature)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = list(_CONVERSIONS[weights].optimizations)
        converter.target_spec.supported_types = list(_CONVERSIONS[weights].types)
        content = converter.convert()
    files.write_bytes(path, content)


def _without_strings(outputs: Outputs) -> Outputs:
    """Leaves out the outputs that only TensorFlow has a type for."""

    def without_strings(received):
        return {
            name: value for name, value in outputs(received).items() if value.dtype != tf.string
        }

    return without_strings
