"""The options that describe a model, and the formats of checkpoints, apart from the slow modules."""

import dataclasses
from typing import ClassVar, Literal

from albert_tf.options import option

# Formats of checkpoints to read.
FormatName = Literal["albert_tf", "tf1", "brightmart", "google_bert", "hugging_face", "keras_hub"]
# Data type of the weights in a checkpoint of Hugging Face's.
WeightType = Literal["float32", "float16"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DepthOptions:
    """The depth of a model."""

    num_hidden_layers: int | None = option(
        "Number of layers, for a model whose layers share all weights; medium_en was trained with 4, 6, "
        "8 and 12. Default: as its config says.",
        None,
        least=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PieceOptions:
    """The words that a vocabulary gets in addition."""

    add_pieces: str | None = option(
        "File with words, one per line, that become pieces of the vocabulary. In training the rows of "
        "their embeddings begin as the means of those of their former pieces.",
        None,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyOptions:
    """The vocabulary of a model."""

    # Pairs of options of which at most one has a value.
    ALTERNATIVES: ClassVar[tuple[tuple[str, str], ...]] = (("spm_model_file", "vocab_file"),)

    spm_model_file: str | None = option("SentencePiece model.", None)
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    do_lower_case: bool | None = option(
        "Lower-case the text. Must match the vocabulary's training text.", None
    )

    @property
    def given_vocabulary(self) -> tuple[str | None, str | None, bool | None]:
        """The files and the case that are given, as `vocabulary_flags` and `load_tokenizer` take them."""
        return self.spm_model_file, self.vocab_file, self.do_lower_case
