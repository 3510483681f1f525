"""The options of conversion, and those that name a checkpoint and the files that describe it."""

import dataclasses
import os
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from albert_tf.options.export_forms import Form, check_installed
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


# Names of the rows, the values of --to.
TargetName = Literal["tf1", "hugging_face", "onnx", "hub"]


class TargetFacts(NamedTuple):
    """What is known of a format without the code that writes it, in `conversion_targets`."""

    description: str  # of what it writes, for texts
    is_folder: bool = True  # whether it writes a folder; otherwise files with a prefix
    stores_types: bool = False  # whether it stores weights in other types than float32, too
    form: Form | None = None  # form of exported models, whose packages write it


TARGET_FACTS: Mapping[TargetName, TargetFacts] = {
    "tf1": TargetFacts("a checkpoint of TensorFlow 1", is_folder=False),
    "hugging_face": TargetFacts("a folder of Hugging Face's", stores_types=True),
    "onnx": TargetFacts(
        "a folder of hugging_face with an ONNX file in it", stores_types=True, form="onnx"
    ),
    "hub": TargetFacts("a reusable encoder, SavedModels with TensorFlow Hub's API for text"),
}
_DESCRIBED = "; ".join(f"{name}: {facts.description}" for name, facts in TARGET_FACTS.items())
_PREFIXED = " or ".join(name for name, facts in TARGET_FACTS.items() if not facts.is_folder)
_WITH_TYPES = " or ".join(name for name, facts in TARGET_FACTS.items() if facts.stores_types)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionOptions(CheckpointOptions):
    """The options of `albert-convert`."""

    output_checkpoint: str = option(
        f"Folder to write; with --to={_PREFIXED} the prefix of the checkpoint."
    )
    to: TargetName = option(f"Format to write. {_DESCRIBED}.")
    output_dtype: WeightType = option(
        f"Type in which --to={_WITH_TYPES} stores the weights.", "float32"
    )

    def __post_init__(self):
        check_ranges(self)
        facts, path = TARGET_FACTS[self.to], self.output_checkpoint
        if self.output_dtype != "float32" and not facts.stores_types:
            raise InputError(f"--output_dtype={self.output_dtype}: expected --to={_WITH_TYPES}")
        if facts.form:
            check_installed(facts.form, "--to")
        if not facts.is_folder and not os.path.basename(path):
            raise InputError(
                f"--output_checkpoint={path}: expected the prefix of a "
                "checkpoint, such as converted/model.ckpt-best; received a folder"
            )
