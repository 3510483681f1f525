"""ALBERT's own tokenizer: normalisation, a SentencePiece vocabulary, and one additional rule.

ALBERT's vocabularies were trained on text without accents, the published ones on lower-case text. Text
that is not normalised in the same way becomes unknown pieces. The rule splits a piece that ends in a
digit and a comma, such as `2010,`, into its digits and the comma.
"""

import copy
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal, Self, TypeVar

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.options import check_type
from albert_tf.tokenization.interface import WORD_MARK, Tokenizer
from albert_tf.tokenization.normalization import normalize_text, original_spans
from albert_tf.tokenization.sentencepiece_models import keeps_accents, mark_accents
from albert_tf.tokenization.special_pieces import SENTENCEPIECE
from albert_tf.tokenization.tokenizer_settings import says_to_keep_accents
from albert_tf.tokenization.vocabulary_files import SENTENCEPIECE_FILE, read_unigram

WordStartRule = Literal["original", "sentencepiece"]

# The punctuation that the original's whole-word masking knows. It lacks ' < = >, so a piece with one of
# these begins a word.
_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")
_ENGLISH = _PUNCTUATION.union(string.ascii_letters)

_Item = TypeVar("_Item", int, str)


class AlbertTokenizer(Tokenizer):
    """Splits text with a SentencePiece model; see `Tokenizer` for the interface.

    NUL and other characters that the model does not know become the unknown piece; `tokenize` returns
    them as they are.

    Args:
        model_file: a SentencePiece model with the pieces `<pad>`, `<unk>`, `[CLS]`, `[SEP]`, `[MASK]`, or
            a `tokenizer.json` made of one.
        lower_case: whether the model was trained on lower-case text.
        word_start_rule: which pieces begin a word, for whole-word masking. `original` follows the
            original, which knows only English: every piece with anything but ASCII letters and
            punctuation begins a word. With `sentencepiece` only a word mark and the unknown piece do.
        keep_accents: whether text keeps its accents and other marks. Default: as the model says, or the
            `tokenizer_config.json` beside it.

    Attributes:
        keep_accents: whether text keeps its accents and other marks.
        digit_comma_splits: id of each piece that ends in a digit and a comma -> the ids that replace it.
        digit_comma_tails: the same id -> number of characters of the piece after each of these.

    Raises:
        InputError: the file cannot be read, is no SentencePiece model or lacks a special piece, there is
            no such rule, or accents shall go of a model that keeps them.
    """

    file_name: ClassVar[str] = SENTENCEPIECE_FILE

    def __init__(
        self,
        model_file: str,
        lower_case: bool = True,
        word_start_rule: WordStartRule = "original",
        keep_accents: bool | None = None,
    ):
        check_type("word_start_rule", word_start_rule, WordStartRule)
        vocabulary = read_unigram(model_file)
        _load_processor(vocabulary, model_file)  # checks it
        self._starts_word = _WORD_STARTS[word_start_rule]
        vocabulary = _with_accents(vocabulary, model_file, keep_accents)
        self._use(model_file, lower_case, vocabulary)

    def _use(self, model_file: str, lower_case: bool, vocabulary: bytes) -> None:
        processor = self._processor = _load_processor(vocabulary, model_file)
        pieces = _read_pieces(processor, model_file)
        super().__init__(model_file, lower_case, vocabulary, pieces, SENTENCEPIECE)
        self.keep_accents = keeps_accents(vocabulary)
        self.word_start = np.array([self._starts_word(piece) for piece in self.pieces])
        # Vocabularies of other programs have special pieces that are not marked as such.
        no_text = (self.special_ids.__contains__, processor.is_control, processor.is_unused)
        self.ordinary_ids = np.array(
            [id_ for id_ in range(self.vocab_size) if not any(kind(id_) for kind in no_text)],
            np.int32,
        )
        self._digit_comma_pieces = {
            piece: [*self._split(_strip_comma(piece)), ","]
            for piece in self.pieces
            if _ends_in_digit_comma(piece)
        }
        self.digit_comma_splits, self.digit_comma_tails = {}, {}
        for piece, split in self._digit_comma_pieces.items():
            id_ = processor.piece_to_id(piece)
            self.digit_comma_splits[id_] = processor.piece_to_id(split)
            self.digit_comma_tails[id_] = _tails(split)

    def piece_of(self, word: str) -> str | None:
        """Returns a word with its mark; None for texts that are none, or end in a digit and a comma."""
        piece = self._processor.normalize(self._normalize(word))
        is_word = piece.rfind(WORD_MARK) == 0 and len(piece) > 1
        return piece if is_word and not _ends_in_digit_comma(piece) else None

    def with_pieces(self, pieces: Sequence[str]) -> Self:
        """Returns a tokenizer with more pieces, each of which its text becomes.

        They have the probability 1, so that no way to split their text is more probable. SentencePiece's
        own type for them, user-defined pieces, has a lower score than some texts of two pieces.
        """
        model = sentencepiece_model_pb2.ModelProto.FromString(self.vocabulary)
        for piece in pieces:
            model.pieces.add(piece=piece, score=0.0)
        model.trainer_spec.vocab_size = len(model.pieces)
        grown = copy.copy(self)
        grown._use(self.vocabulary_file, self.lower_case, model.SerializeToString())
        return grown

    def tokenize(self, text: str) -> list[str]:
        """Returns the pieces of a text; an unknown piece is returned as the text that it stands for."""
        pieces = self._split(self._normalize(text))
        return _replace(pieces, self._digit_comma_pieces)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text's pieces."""
        ids = self._processor.encode(self._normalize(text))
        return _replace(ids, self.digit_comma_splits)

    def encode_batch(self, texts: Sequence[str], num_threads: int = -1) -> list[list[int]]:
        """Returns the ids of each text, in one call of SentencePiece."""
        normalized = [self._normalize(text) for text in texts]
        batch = self._processor.encode(normalized, num_threads=num_threads)
        return [_replace(ids, self.digit_comma_splits) for ids in batch]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids of a text's pieces, and where in the text they come from; see `Tokenizer`."""
        origins = original_spans(text, self.lower_case, self.keep_accents)
        ids, spans = [], []
        encoded = self._processor.encode(self._normalize(text), return_type="offset_mapping")
        for id_, (first, after) in zip(encoded["ids"], encoded["offsets"], strict=True):
            new_ids = self.digit_comma_splits.get(id_, (id_,))
            for new_id, tail in zip(new_ids, self.digit_comma_tails.get(id_, (0,)), strict=True):
                # If the text is shorter than the piece, some ids get nothing.
                end = max(first, after - tail)
                ids.append(new_id)
                spans.append(_join(origins, first, end))
                first = end
        return ids, spans

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, without control pieces; the unknown piece becomes ⁇."""
        return self._processor.decode([int(id_) for id_ in ids])

    def _normalize(self, text: str) -> str:
        return normalize_text(text, self.lower_case, self.keep_accents)

    def _split(self, text: str) -> list[str]:
        return self._processor.encode(text, out_type=str)


def _with_accents(model: bytes, model_file: str, keep_accents: bool | None) -> bytes:
    """Returns a SentencePiece model that says whether text keeps its accents."""
    if keeps_accents(model):
        if keep_accents is False:
            raise InputError(
                f"{model_file}: keep_accents is False; the model is of text with accents"
            )
        return model
    if keep_accents is None:
        keep_accents = says_to_keep_accents(model_file)
    return mark_accents(model) if keep_accents else model


def is_sentencepiece_model(path: str) -> bool:
    """Returns whether a file exists and is a SentencePiece model, with any special pieces."""
    try:
        _load_processor(files.read_bytes(path), path)
    except InputError:
        return False
    return True


def _load_processor(model: bytes, model_file: str) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        if processor.load_from_serialized_proto(model):
            return processor
    except RuntimeError:
        pass
    raise InputError(f"{model_file}: not a SentencePiece model")


def _read_pieces(processor: sentencepiece.SentencePieceProcessor, model_file: str) -> list[str]:
    try:
        return processor.id_to_piece(list(range(processor.vocab_size())))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{model_file}: the file is damaged: the piece {error.object!r} is not UTF-8"
        ) from error


def _has_word_mark(piece: str) -> bool:
    return piece in SENTENCEPIECE or piece.startswith(WORD_MARK)


def _starts_word_in_original(piece: str) -> bool:
    """The original's rule; it treats a piece of a foreign script, or a number, as a whole word."""
    return (
        _has_word_mark(piece)
        or piece.startswith("<")
        or piece in _PUNCTUATION
        or not _ENGLISH.issuperset(piece)
    )


_WORD_STARTS = {"original": _starts_word_in_original, "sentencepiece": _has_word_mark}


def _ends_in_digit_comma(piece: str) -> bool:
    return piece.endswith(",") and piece[-2:-1].isdigit()


def _strip_comma(piece: str) -> str:
    """Returns the text of a piece before its comma.

    SentencePiece puts a word mark before it. The original means to remove this mark inside a word, but
    compares bytes with text and so keeps it. We keep it, too, for equal ids.
    """
    return piece[:-1].replace(WORD_MARK, "")


def _tails(pieces: list[str]) -> list[int]:
    """Returns the number of characters after each of some pieces, not counting word marks."""
    lengths = [len(piece.replace(WORD_MARK, "")) for piece in pieces]
    return [sum(lengths[index + 1 :]) for index in range(len(pieces))]


def _join(spans: list[tuple[int, int]], first: int, after: int) -> tuple[int, int]:
    """Returns the span of several characters, or the empty span before the next one."""
    if first < after:
        return spans[first][0], spans[after - 1][1]
    place = spans[first][0] if first < len(spans) else spans[-1][1]
    return place, place


def _replace(items: list[_Item], replacements: Mapping[_Item, Iterable[_Item]]) -> list[_Item]:
    if replacements.keys().isdisjoint(items):
        return items
    return [new for item in items for new in replacements.get(item, (item,))]
