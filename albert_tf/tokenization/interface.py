"""What every tokenizer offers, so that the rest of the package need not know which one it holds."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np


class Tokenizer(Protocol):
    """Splits text into pieces of a vocabulary, and numbers them.

    Text is normalised by the tokenizer itself. It never yields a special piece other than the unknown
    one: `[MASK]` written in a text is split like any other word. A tokenizer can be pickled.

    Attributes:
        file_name: what a copy of the vocabulary is called.
        vocabulary_file: the file that the vocabulary was read from.
        vocabulary_sha256: SHA-256 of that file as it was read, in hexadecimal. Two vocabularies with the
            same one give the same ids, for the same `lower_case`.
        lower_case: whether text is lower-cased before it is split.
        pieces: the V pieces; a piece's index is its id.
        pad_id: id of the piece that fills a sequence up.
        unk_id: id of everything that the vocabulary has no piece for.
        cls_id: id of the piece that opens a sequence.
        sep_id: id of the piece that closes a segment.
        mask_id: id of the piece shown in place of a masked one.
        word_start: bool (V,), True where a piece begins a word. Whole-word masking joins every other
            piece to the one before it.
        ordinary_ids: int32, ascending, at most (V,): the ids of pieces that stand for text, which a
            masked piece may be replaced with at random. No special, control or unknown piece.
    """

    file_name: ClassVar[str]
    vocabulary_file: str
    vocabulary_sha256: str
    lower_case: bool
    pieces: list[str]
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    word_start: np.ndarray
    ordinary_ids: np.ndarray

    @property
    def vocab_size(self) -> int:
        """Number of pieces, V."""

    def tokenize(self, text: str) -> list[str]:
        """Returns the pieces of a text."""

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text's pieces."""

    def encode_batch(self, texts: Sequence[str], num_threads: int = -1) -> list[list[int]]:
        """Returns the ids of each text; the fast way for many texts.

        Args:
            texts: the texts.
            num_threads: threads to share them at most, where the tokenizer can; -1: all cores.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, as far as normalisation kept it; control pieces give none."""
