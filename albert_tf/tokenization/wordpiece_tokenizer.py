"""BERT's tokenizer, which ALBERT's Chinese models use: words, then the longest pieces that fit."""

import hashlib
from collections.abc import Sequence

import numpy as np

from albert_tf import files
from albert_tf.tokenization.basic_tokenization import split_words
from albert_tf.tokenization.special_pieces import WORDPIECE, find_special_ids

CONTINUATION_MARK = "##"
# A longer word is an unknown piece (the original's `max_input_chars_per_word`).
_MAX_WORD_LENGTH = 200


class WordPieceTokenizer:
    """Splits text with a WordPiece vocabulary; see `Tokenizer` for the interface.

    NUL and other control characters are dropped.

    Args:
        vocab_file: a text file with a piece in each line, among them `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]`
            and `[MASK]`. Only the first field of a line counts, a blank line is the piece " ", and a
            piece that stands there again has no second id, so later ids are not line numbers.
        lower_case: whether text is lower-cased and stripped of accents.

    Raises:
        InputError: the file cannot be read, is not UTF-8 or lacks a special piece.
    """

    file_name = "vocabulary.txt"

    def __init__(self, vocab_file: str, lower_case: bool = True):
        self.vocabulary_file = vocab_file
        self.lower_case = lower_case
        content = files.read_bytes(vocab_file)
        self.vocabulary_sha256 = hashlib.sha256(content).hexdigest()
        self._ids = _number_pieces(content, vocab_file)
        self.pieces = list(self._ids)
        special_ids = find_special_ids(self.pieces, WORDPIECE, vocab_file)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = special_ids
        self.word_start = np.array(
            [not piece.startswith(CONTINUATION_MARK) for piece in self.pieces]
        )
        self.ordinary_ids = np.setdiff1d(np.arange(self.vocab_size, dtype=np.int32), special_ids)

    @property
    def vocab_size(self) -> int:
        """Number of pieces, V."""
        return len(self.pieces)

    def tokenize(self, text: str) -> list[str]:
        """Returns the pieces of a text; a word that the vocabulary cannot spell is one `[UNK]`."""
        words = split_words(text, self.lower_case)
        return [piece for word in words for piece in self._split_word(word)]

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text's pieces."""
        return [self._ids[piece] for piece in self.tokenize(text)]

    def encode_batch(self, texts: Sequence[str], num_threads: int = -1) -> list[list[int]]:
        """Returns the ids of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the words of ids with spaces between them; control pieces give none."""
        silent = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        words = " ".join(self.pieces[id_] for id_ in ids if id_ not in silent)
        return words.replace(f" {CONTINUATION_MARK}", "")

    def _split_word(self, word: str) -> list[str]:
        if len(word) > _MAX_WORD_LENGTH:
            return [WORDPIECE.unk]
        pieces = []
        start = 0
        while start < len(word):
            piece = self._longest_piece(word, start)
            if piece is None:
                return [WORDPIECE.unk]
            pieces.append(piece)
            start += len(piece) - (len(CONTINUATION_MARK) if start else 0)
        return pieces

    def _longest_piece(self, word: str, start: int) -> str | None:
        mark = CONTINUATION_MARK if start else ""
        candidates = (mark + word[start:end] for end in range(len(word), start, -1))
        return next((piece for piece in candidates if piece in self._ids), None)


def _number_pieces(content: bytes, vocab_file: str) -> dict[str, int]:
    ids: dict[str, int] = {}
    for _, line in files.decode_lines([content], vocab_file, files.decode_strictly):
        fields = line.split()
        ids.setdefault(fields[0] if fields else " ", len(ids))
    return ids
