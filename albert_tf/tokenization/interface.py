"""What every tokenizer offers, so that the rest of the package need not know which one it has."""

import abc
import hashlib
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from albert_tf.errors import InputError, name_place
from albert_tf.tokenization.special_pieces import SpecialPieces
from albert_tf.tokenization.vocabulary_files import WORDPIECE_FILE, find_preset

# Of pieces that begin a word (SentencePiece), and of those that continue one (WordPiece).
WORD_MARK, CONTINUATION_MARK = "\N{LOWER ONE EIGHTH BLOCK}", "##"


class Tokenizer(abc.ABC):
    """Splits text into pieces of a vocabulary, and numbers them.

    A tokenizer normalises text itself and can be pickled. Text never becomes a special piece other than
    the unknown one: `[MASK]` in a text is split like any other word.

    Attributes:
        file_name: name of a copy of the vocabulary.
        vocabulary_file: the file that the vocabulary was read from.
        vocabulary: content of that file as it was read, of WordPiece with notes of the added tokens in
            the other files of its folder.
        vocabulary_sha256: its hexadecimal SHA-256. Vocabularies with equal sums and equal `lower_case`
            give equal ids.
        lower_case: whether text is lower-cased before it is split.
        pieces: the V pieces; a piece's index is its id.
        pad_id: id of the padding piece.
        unk_id: id of the piece for everything that the vocabulary cannot spell.
        cls_id: id of the piece at the start of a sequence.
        sep_id: id of the piece at the end of a segment.
        mask_id: id of the piece that replaces a masked one.
        special_ids: these five ids, in this order.
        word_start: bool (V,), True where a piece begins a word. Whole-word masking joins every other
            piece to the one before it.
        ordinary_ids: int32, ascending: ids of the pieces that stand for text, which may replace a masked
            piece at random. No special, control or unknown piece.
        former_ids: for each piece that `add_pieces` has added, the last ones, the ids of the pieces that
            its text had before.
    """

    file_name: ClassVar[str]
    vocabulary_file: str
    vocabulary: bytes
    vocabulary_sha256: str
    lower_case: bool
    pieces: list[str]
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    special_ids: tuple[int, ...]
    word_start: np.ndarray
    ordinary_ids: np.ndarray
    former_ids: tuple[tuple[int, ...], ...] = ()

    def __init__(
        self,
        vocabulary_file: str,
        lower_case: bool,
        vocabulary: bytes,
        pieces: list[str],
        special: SpecialPieces,
    ):
        self.vocabulary_file = vocabulary_file
        self.lower_case = lower_case
        self.vocabulary = vocabulary
        self.vocabulary_sha256 = hashlib.sha256(vocabulary).hexdigest()
        self.pieces = pieces
        for name in special:
            if name not in pieces:
                raise InputError(
                    f"{vocabulary_file}: the vocabulary has no piece '{name}'; it needs "
                    f"{', '.join(special)}"
                )
        self.special_ids = tuple(map(pieces.index, special))
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self.special_ids

    @classmethod
    def from_preset(cls, preset: str, lower_case: bool | None = None) -> Self:
        """Loads the tokenizer of a model.

        Args:
            preset: a model as for `albert_tf.load`.
            lower_case: whether text is lower-cased. Default: as the model's folder says, otherwise true.

        Raises:
            InputError: there is no such model, or its vocabulary is of another tokenizer.
        """
        with name_place(f"{cls.__name__}.from_preset({preset!r})"):
            # The first two arguments of each subclass.
            found = find_preset(preset, cls.file_name == WORDPIECE_FILE, lower_case)
            return cls(*found)  # type: ignore[call-arg]  # `cls` is a subclass

    @property
    def vocab_size(self) -> int:
        """Number of pieces, V."""
        return len(self.pieces)

    @abc.abstractmethod
    def piece_of(self, word: str) -> str | None:
        """Returns the piece that stands for a word, in the vocabulary or not; None for other texts."""

    @abc.abstractmethod
    def with_pieces(self, pieces: Sequence[str]) -> Self:
        """Returns a tokenizer with more pieces, each of which its text becomes."""

    @abc.abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Returns the pieces of a text."""

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text's pieces."""

    def encode_batch(self, texts: Sequence[str], num_threads: int = -1) -> list[list[int]]:
        """Returns the ids of each text; the fast way for many texts.

        Args:
            texts: the texts.
            num_threads: maximum number of threads, if the tokenizer uses any; -1 for all cores.
        """
        return [self.encode(text) for text in texts]

    @abc.abstractmethod
    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids of a text's pieces, and where in the text they come from.

        Args:
            text: any text.

        Returns:
            The ids, and for each one the first character of `text` that it stands for and the one after
            its last. A piece with a word mark begins at the white space before the word, if any. A
            combining mark, which normalisation drops, belongs to the character before it. So
            `text[start:end]`, stripped, is the original spelling.
        """

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, as far as normalisation kept it, without control pieces."""


def check_tokenizer(tokenizer: Tokenizer) -> None:
    """Raises an `InputError` unless it is one of our tokenizers, rather than a path, for example."""
    if not hasattr(tokenizer, "encode_batch"):
        received = type(tokenizer).__name__
        raise InputError(
            f"tokenizer: expected an AlbertTokenizer or a WordPieceTokenizer; received {received}"
        )
