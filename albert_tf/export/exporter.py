"""Exports a trained model of any kind in a version folder.

<export_dir>/ids/<n>/       SavedModel, ids -> predictions; needs TensorFlow alone
<export_dir>/text/<n>/      SavedModel, raw text -> predictions; needs TensorFlow Text's operators
<export_dir>/tflite/<n>/    model.tflite, ids of one text -> predictions, for LiteRT
<export_dir>/openvino/<n>/  model.xml and model.bin, raw text or ids -> predictions, for OpenVINO
<export_dir>/onnx/<n>/      model.onnx, ids -> predictions, for ONNX Runtime

Each has a model card, and assets: the config, the vocabulary, the labels one per line, `task.json`.
"""

import functools
from typing import Any

import keras

from albert_tf.export.exportable import Exportable, ExportDetails
from albert_tf.export.text_model import TextModel
from albert_tf.tokenization import Tokenizer

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
    exported = Exportable(
        model,
        kind.outputs,
        functools.partial(TextModel, kind=kind, tokenizer=tokenizer),
        kind.max_seq_length,
        kind.labels,
        kind.num_choices,
        kind.add_openvino_tokenizer,
    )
    return exported.write(tokenizer, export_dir, details.add_assets(kind.assets()))
