"""BERT's tokenizer, which ALBERT's Chinese models use: words, then the longest pieces that fit."""

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

import numpy as np

from albert_tf.errors import InputError
from albert_tf.tokenization.added_tokens import AddedTokens
from albert_tf.tokenization.bert_words import space_words, split_words
from albert_tf.tokenization.interface import CONTINUATION_MARK, Tokenizer
from albert_tf.tokenization.special_pieces import WORDPIECE
from albert_tf.tokenization.vocabulary_files import WORDPIECE_FILE, read_wordpiece
from albert_tf.tokenization.wordpiece_lines import UNREACHED, pieces_of_lines

# A longer word becomes the unknown piece (the original's `max_input_chars_per_word`).
MAX_WORD_LENGTH = 200


class WordPieceTokenizer(Tokenizer):
    """Splits text with a WordPiece vocabulary; see `Tokenizer` for the interface.

    NUL and other control characters are dropped. Added tokens, which the files beside the vocabulary
    name, are cut out of a text first; see `albert_tf.tokenization.added_tokens`.

    Args:
        vocab_file: a `tokenizer.json`, or a text file with one piece per line, with `[PAD]`, `[UNK]`,
            `[CLS]`, `[SEP]` and `[MASK]`. Ids are the numbers of lines, also after blank and repeated
            lines; see `albert_tf.tokenization.wordpiece_lines`.
        lower_case: whether to lower-case text and strip its accents.

    Attributes:
        added: the added tokens.

    Raises:
        InputError: the file cannot be read, is not UTF-8 or lacks a special piece, or an added token is
            not supported.
    """

    file_name: ClassVar[str] = WORDPIECE_FILE

    def __init__(self, vocab_file: str, lower_case: bool = True):
        self._use(vocab_file, lower_case, read_wordpiece(vocab_file))

    def _use(self, vocab_file: str, lower_case: bool, vocabulary: bytes) -> None:
        pieces = pieces_of_lines(vocabulary, vocab_file)
        super().__init__(vocab_file, lower_case, vocabulary, pieces, WORDPIECE)
        self.added = AddedTokens(vocabulary, vocab_file, lower_case)
        self._ids = {piece: id_ for id_, piece in enumerate(pieces) if piece != UNREACHED}
        self._spelled = {piece for piece, id_ in self._ids.items() if id_ < self.added.num_spelled}
        self.word_start = np.array(
            [not piece.startswith(CONTINUATION_MARK) for piece in self.pieces]
        )
        self.ordinary_ids = np.setdiff1d(
            np.arange(self.vocab_size, dtype=np.int32), self.special_ids
        )

    def piece_of(self, word: str) -> str | None:
        """Returns a word as it is split; None for texts of several words, or words that are too long."""
        words = split_words(word, self.lower_case)
        return words[0] if len(words) == 1 and len(words[0]) <= MAX_WORD_LENGTH else None

    def with_pieces(self, pieces: Sequence[str]) -> Self:
        """Returns a tokenizer with more pieces, each of which its text becomes."""
        if self.added.ids:
            raise InputError(
                f"{self.vocabulary_file}: has added tokens, which are the last pieces; expected a "
                "vocabulary without"
            )
        content = self.vocabulary if self.vocabulary.endswith(b"\n") else self.vocabulary + b"\n"
        lines = "".join(f"{piece}\n" for piece in pieces).encode()
        grown = copy.copy(self)
        grown._use(self.vocabulary_file, self.lower_case, content + lines)
        return grown

    def tokenize(self, text: str) -> list[str]:
        """Returns the pieces of a text; a word that the vocabulary cannot spell is one `[UNK]`."""
        return [
            piece
            for _, part, token in self.added.cut(text)
            for piece in (self._split_part(part) if token is None else [self.pieces[token]])
        ]

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text's pieces."""
        return [self._ids[piece] for piece in self.tokenize(text)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids of a text's pieces, and where in the text they come from; see `Tokenizer`."""
        ids, spans = [], []
        for start, part, token in self.added.cut(text):
            if token is not None:
                ids.append(token)
                spans.append((start, start + len(part)))
                continue
            for id_, first, after in self._encode_part(part):
                ids.append(id_)
                spans.append((start + first, start + after))
        return ids, spans

    def _encode_part(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Yields the ids of a text without raw tokens, and their places."""
        lengths = [_normalized_length(char, self.lower_case) for char in text]
        # For each normalised character the index of the original one.
        origins = np.repeat(np.arange(len(text)), lengths).tolist()
        for word, start, word_end, token in self.added.words(space_words(text, self.lower_case)):
            pieces = self._pieces_of(word, token)
            for number, piece in enumerate(pieces):
                end = start + len(piece) - (len(CONTINUATION_MARK) if number else 0)
                if len(pieces) == 1:  # also an unknown piece or a token, whatever its text
                    end = word_end
                yield self._ids[piece], origins[start], _end_of(lengths, origins[end - 1])
                start = end

    def _split_part(self, text: str) -> list[str]:
        words = self.added.words(space_words(text, self.lower_case))
        return [piece for word, _, _, token in words for piece in self._pieces_of(word, token)]

    def _pieces_of(self, word: str, token: int | None) -> list[str]:
        return self._split_word(word) if token is None else [self.pieces[token]]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the words of ids with spaces between them, without control pieces."""
        silent = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        words = " ".join(self.pieces[id_] for id_ in ids if id_ not in silent)
        return words.replace(f" {CONTINUATION_MARK}", "")

    def _split_word(self, word: str) -> list[str]:
        if len(word) > MAX_WORD_LENGTH:
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
        return next((piece for piece in candidates if piece in self._spelled), None)


@functools.cache
def _normalized_length(char: str, lower_case: bool) -> int:
    return len(space_words(char, lower_case))


def _end_of(lengths: Sequence[int], index: int) -> int:
    """Returns the end of a character and of the dropped ones after it, such as its accents."""
    end = index + 1
    while end < len(lengths) and not lengths[end]:
        end += 1
    return end
