"""Exports trained models in version folders.

<export_dir>/ids/<n>/       SavedModel, ids -> predictions; needs TensorFlow alone
<export_dir>/text/<n>/      SavedModel, raw text -> predictions; needs TensorFlow Text's operators
<export_dir>/tflite/<n>/    model.tflite, ids of one text -> predictions, for LiteRT
<export_dir>/openvino/<n>/  model.xml and model.bin, raw text or ids -> predictions, for OpenVINO
<export_dir>/onnx/<n>/      model.onnx, ids -> predictions, for ONNX Runtime

Each has a model card, and assets: the config, the vocabulary, the labels one per line.
"""

import dataclasses
import functools

from albert_tf.data.fine_tuning.squad_windows import AnswerConfig
from albert_tf.export.exportable import Exportable, ExportDetails
from albert_tf.export.saved_models.answer_model import AnswerTextModel
from albert_tf.export.saved_models.ids_model import (
    span_outputs,
)
from albert_tf.export.version_folders import json_asset
from albert_tf.models import (
    AlbertConditionalSpanLabeler,
    AlbertSpanLabeler,
)
from albert_tf.tokenization import Tokenizer

_CONFIG_FILE = "answer_rule.json"

SAVED_MODELS = ExportDetails()


def export_question_answering(
    model: AlbertSpanLabeler | AlbertConditionalSpanLabeler,
    tokenizer: Tokenizer,
    export_dir: str,
    config: AnswerConfig,
    details: ExportDetails = SAVED_MODELS,
) -> dict[str, str]:
    """Writes the next version of a model that answers questions.

    SavedModels take `question` and `context`, or the ids of windows; other files ids.

    Args:
        model: the model.
        tokenizer: the tokenizer that the model was trained with.
        export_dir: parent of the models' folders.
        config: how the text model cuts passages and chooses answers; also written as an asset.
        details: the form, and what accompanies the model.

    Returns:
        The written folders: `ids` and, with TensorFlow Text, `text`; or the one of another form.

    Raises:
        InputError: the model has no such form, a package that writes it is missing, or the vocabulary
            is WordPiece, for SavedModels.
        StoppedError: the file system refuses.
    """
    make_text_model = functools.partial(AnswerTextModel, tokenizer=tokenizer, config=config)
    config_asset = {_CONFIG_FILE: json_asset(dataclasses.asdict(config))}
    exported = Exportable(model, span_outputs, make_text_model, config.max_seq_length)
    return exported.write(tokenizer, export_dir, details.add_assets(config_asset))
