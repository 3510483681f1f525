"""The options of embedding."""

import dataclasses
from typing import ClassVar

from albert_tf.data.fine_tuning.tables import table_format_names
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option
from albert_tf.options.kinds import Pooling
from albert_tf.options.models import DepthOptions, VocabularyOptions
from albert_tf.sources import MODEL_NAMES
from albert_tf.tasks.training_options import ExportOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(DepthOptions, VocabularyOptions, ExportOptions):
    """The options of `albert-embed`."""

    DEFAULTS: ClassVar = {
        "spm_model_file": "that of the folder",
        "do_lower_case": "as the folder says, otherwise true",
    }

    model: str = option(
        f"{MODEL_NAMES}, such as one that a command has trained, for its best checkpoint, or an exported "
        "embedder."
    )
    input_file: str | None = option(
        "Text file with one text per line; - is standard input. An empty line is a text, too. Of a table "
        f"({table_format_names()}) the column of texts is embedded.",
        None,
    )
    text_column: str | None = option(
        "Column of the texts, if --input_file is a table. Default: the one with a usual name.", None
    )
    columns: str | None = option(
        "Names of all columns, with commas between them, of a table without a header row.",
        None,
    )
    output_file: str | None = option(
        "File for the embeddings in the order of the texts: .npy, float32 (texts, H).", None
    )
    pooling: Pooling | None = option(
        "mean: mean of the last hidden states of all tokens; cls: that of [CLS]; max, "
        "mean_sqrt_len_tokens, weightedmean, lasttoken: as in sentence-transformers. Default: as the "
        "folder says, otherwise mean.",
        None,
    )
    normalize: bool | None = option(
        "Scale embeddings to length 1. Default: as the folder says, otherwise false.", None
    )
    max_seq_length: int | None = option(
        "Maximum number of tokens per text, including the special ones. Default: as the folder says, "
        "otherwise the model's number of positions.",
        None,
        least=5,
    )

    prompt_name: str | None = option(
        "Name of one of the prompts of the folder, which is put before each text. Default: the folder's "
        "default prompt, if it has one; an empty name is none.",
        None,
    )

    def __post_init__(self):
        check_ranges(self)
        if not (self.output_file or self.export_dir):
            raise InputError("expected --output_file or --export_dir; received neither")
        if (self.input_file is None) != (self.output_file is None):
            raise InputError("expected --input_file and --output_file, or neither; received one")
        if self.output_file and not self.output_file.endswith(".npy"):
            raise InputError(f"--output_file={self.output_file}: expected a name that ends in .npy")
        self.check_export(has_examples=False)
