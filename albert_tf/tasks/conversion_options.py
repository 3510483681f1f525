"""The options of conversion, and those that name a checkpoint and the files that describe it."""

import dataclasses
import os
from typing import ClassVar, Literal

from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from albert_tf.options.export_forms import check_installed
from albert_tf.options.models import DepthOptions, VocabularyOptions, WeightType
from albert_tf.sources import MODEL_NAMES


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointOptions(DepthOptions, VocabularyOptions):
    """A checkpoint, and the files that describe it."""

    DEFAULTS: ClassVar = {
        "spm_model_file": "the one next to the checkpoint, if any",
        "do_lower_case": "as in the folder of the checkpoint, otherwise true",
    }

    init_checkpoint: str = option(
        f"Model to convert, of any format: {MODEL_NAMES} or prefix of a checkpoint."
    )
    albert_config_file: str | None = option(
        "JSON file with the config of its model. Default: the one next to the checkpoint.", None
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionOptions(CheckpointOptions):
    """The options of `albert-convert`."""

    output_checkpoint: str = option(
        "Prefix of the checkpoint to write; the folder with --to=hugging_face, onnx or hub."
    )
    to: Literal["tf1", "hugging_face", "onnx", "hub"] = option(
        "Format to write. onnx is a folder of hugging_face with an ONNX file in it; hub is a reusable "
        "encoder, SavedModels with TensorFlow Hub's API for text."
    )
    output_dtype: WeightType = option(
        "Type in which --to=hugging_face or onnx stores the weights.", "float32"
    )

    def __post_init__(self):
        check_ranges(self)
        if self.output_dtype != "float32" and self.to not in ("hugging_face", "onnx"):
            raise InputError(
                f"--output_dtype={self.output_dtype}: expected --to=hugging_face or onnx"
            )
        if self.to == "onnx":
            check_installed("onnx", "--to")
        path = self.output_checkpoint
        if self.to == "tf1" and not os.path.basename(path):
            raise InputError(
                f"--output_checkpoint={path}: expected the prefix of a "
                "checkpoint, such as converted/model.ckpt-best; received a folder"
            )
