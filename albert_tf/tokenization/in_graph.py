"""The tokenizers as TensorFlow operations, for SavedModels that take raw text.

They return the ids of the Python tokenizers, whatever the Unicode version and locale of the machine that
serves the model: all tables come from the Python that exports it.
"""

import functools
import hashlib
import types
from typing import NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tokenization.added_tokens import alternatives
from albert_tf.tokenization.bert_words import clean_text, is_accent, is_dropped, is_word
from albert_tf.tokenization.character_tables import (
    character_class,
    characters_of_unicode,
    combining_marks,
)
from albert_tf.tokenization.graph_normalization import (
    GraphNormalizer,
    NormalizedCharacters,
    Replacements,
    places_in_rows,
    sort_marks,
)
from albert_tf.tokenization.interface import Tokenizer
from albert_tf.tokenization.lower_case import lower_sigmas
from albert_tf.tokenization.sentencepiece_characters import classify_characters
from albert_tf.tokenization.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.tokenization.special_pieces import WORDPIECE
from albert_tf.tokenization.wordpiece_lines import UNREACHED
from albert_tf.tokenization.wordpiece_tokenizer import (
    CONTINUATION_MARK,
    MAX_WORD_LENGTH,
    WordPieceTokenizer,
)

_MAX_BYTES_PER_CHARACTER = 4

# Control characters, which no normalised text has: those around an added token, those around one that is
# cut out of the text as it is, and what stands for them where a text has them.
_MARK, _RAW_MARK, _NO_MARK = "\1", "\3", "\2"
_MARKS = _MARK + _RAW_MARK
_MARKED_RAW = f"{_RAW_MARK}[^{_RAW_MARK}]*{_RAW_MARK}"


def import_tensorflow_text() -> types.ModuleType:
    """Imports TensorFlow Text, which registers its operators.

    It takes seconds, and there is no wheel for some platforms, so it is imported when it is needed.
    """
    try:
        import tensorflow_text
    # NotFoundError: it was built for another version of TensorFlow.
    except (ImportError, tf.errors.NotFoundError) as error:
        version = ".".join(tf.__version__.split(".")[:2])
        raise InputError(
            "tokenizing in a TensorFlow graph needs TensorFlow Text, which cannot be imported "
            f"({error}): pip install 'tensorflow-text=={version}.*'"
        ) from error
    return tensorflow_text


class GraphTokenizer(Protocol):
    """A tokenizer inside a graph.

    Malformed UTF-8 becomes U+FFFD, as when Python decodes a file with `errors="replace"`.
    """

    def __call__(self, text: tf.Tensor, max_ids: int | None = None) -> tf.RaggedTensor:
        """Returns the ids of lines of UTF-8 text, string (B,), as int32 (B, None).

        With `max_ids`, the maximum number of ids per line, most of a long line is skipped early.
        """


def make_graph_tokenizer(tokenizer: Tokenizer) -> GraphTokenizer:
    """Returns the tokenizer as TensorFlow operations."""
    if isinstance(tokenizer, AlbertTokenizer):
        return GraphAlbertTokenizer(tokenizer)
    assert isinstance(tokenizer, WordPieceTokenizer)
    return GraphWordPieceTokenizer(tokenizer)


class TokensWithOffsets(NamedTuple):
    """Ids, int32 (B, None), and the first character that each stands for and its end, int64 (B, None)."""

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class GraphAlbertTokenizer(tf.Module):
    """Returns the ids and offsets of an `AlbertTokenizer`; see `GraphTokenizer` for the interface.

    One difference is left: if two ways to split are equally probable up to rounding, the SentencePiece
    inside tensorflow_text may choose another one than the Python package. docs/fidelity.md says how often
    it did.
    """

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__()
        classes = classify_characters(tokenizer.vocabulary, tokenizer.lower_case)
        self._normalize = GraphNormalizer(tokenizer.lower_case, classes)
        self._sentencepiece = _SentencePiece(tokenizer.vocabulary)
        self._digit_commas = Replacements(tokenizer.digit_comma_splits)
        tails = [tails for _, tails in sorted(tokenizer.digit_comma_tails.items())]
        # For each entry of the table, the characters after it and those after the entry before it.
        self._tails = np.array([tail for row in tails for tail in row] + [0], np.int64)
        whole = np.iinfo(np.int32).max
        self._tails_before = np.array(
            [tail for row in tails for tail in [whole, *row[:-1]]] + [whole], np.int64
        )

    def __call__(self, text: tf.Tensor, max_ids: int | None = None) -> tf.RaggedTensor:
        """Returns the ids of lines of text, int32 (B, None)."""
        ids = self._split(self._normalize(text, max_pieces=max_ids)).ids
        return ids if max_ids is None else ids[:, :max_ids]

    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """Returns ids and offsets of text, string (B,), as `AlbertTokenizer.encode_with_offsets` does.

        Offsets count characters (code points), each malformed part of the UTF-8 as one.
        """
        return self._split(self._normalize(text))

    def _split(self, characters: NormalizedCharacters) -> TokensWithOffsets:
        pieces, row_splits, first_bytes, after_bytes = self._sentencepiece(characters.text)
        rows, _ = places_in_rows(row_splits)
        # As indices into the characters of all lines.
        firsts = characters.index_of_byte(first_bytes, rows)
        afters = characters.index_of_byte(after_bytes, rows)

        ids = self._digit_commas.replace(pieces)
        whole = tf.gather(firsts, ids.origins)
        afters = tf.gather(afters, ids.origins)
        firsts = tf.maximum(whole, afters - tf.gather(self._tails_before, ids.entries))
        afters = tf.maximum(whole, afters - tf.gather(self._tails, ids.entries))
        starts, ends = _original_offsets(
            characters, rows=tf.gather(rows, ids.origins), firsts=firsts, afters=afters
        )
        lines = ids.to_ragged(row_splits)
        return TokensWithOffsets(lines, lines.with_values(starts), lines.with_values(ends))


class _SentencePiece(tf.saved_model.experimental.TrackableResource):
    """Splits text as `tf_text.SentencepieceTokenizer` does.

    That class loses its model when `keras.utils.set_random_seed` or `keras.utils.clear_session` reset
    TensorFlow. A model with a name, here its SHA-256, stays.
    """

    def __init__(self, model: bytes):
        super().__init__()
        import_tensorflow_text()
        from tensorflow_text.python.ops import sentencepiece_tokenizer

        self._operators = sentencepiece_tokenizer.gen_sentencepiece_tokenizer
        self._model = model
        _ = self.resource_handle  # creates it

    def _create_resource(self) -> tf.Tensor:
        name = hashlib.sha256(self._model).hexdigest()
        return self._operators.sentencepiece_op(model=self._model, shared_name=name)

    def __call__(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns ids, int32 (n,), row splits, int64 (B + 1,), starts and ends in bytes, int32 (n,)."""
        return self._operators.sentencepiece_tokenize_with_offsets_op(
            self.resource_handle,
            text,
            nbest_size=0,
            alpha=1.0,
            add_bos=False,
            add_eos=False,
            reverse=False,
            out_type=tf.int32,
        )


def _original_offsets(
    characters: NormalizedCharacters, rows: tf.Tensor, firsts: tf.Tensor, afters: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Turns indices of normalised characters into offsets in the original lines, int64 (ids,) each.

    An id is given by its line, its first character and the one after its last, int64 (ids,) each.
    """
    starts = tf.where(
        firsts < tf.gather(characters.row_limits, rows),
        tf.gather(tf.pad(characters.starts, [[0, 1]]), firsts),
        tf.gather(characters.text_ends, rows),
    )
    ends = tf.where(afters > firsts, tf.gather(tf.pad(characters.ends, [[1, 0]]), afters), starts)
    return starts, ends


class GraphWordPieceTokenizer(tf.Module):
    """Returns the ids of a `WordPieceTokenizer`; see `GraphTokenizer` for the interface.

    `tf_text.FastBertTokenizer` does the same job, but 5 % of real lines in five languages get other ids
    from it: it has a rule of case of its own, and splits words at some control characters. So Python's
    tables split text into words, and only the words go to TensorFlow Text.
    """

    def __init__(self, tokenizer: WordPieceTokenizer):
        super().__init__()
        self._lower_case = tokenizer.lower_case
        self._added = tokenizer.added
        cleaned = _clean_characters(tokenizer.lower_case)
        self._words = f"({_word_characters()})"
        if self._added.ids:
            cleaned = {char: new for char, new in cleaned.items() if chr(char) not in _MARKS}
            self._words = f"({_MARK}[^{_MARK}]*{_MARK}|{_word_characters()})"
        self._characters = Replacements(cleaned)
        pieces = _distinct_pieces(tokenizer)
        self._ids = np.array([*pieces.values()], np.int32)
        try:
            self._wordpiece = import_tensorflow_text().FastWordpieceTokenizer(
                vocab=[*pieces],
                suffix_indicator=CONTINUATION_MARK,
                max_bytes_per_word=MAX_WORD_LENGTH * _MAX_BYTES_PER_CHARACTER,
                token_out_type=tf.int32,
                unknown_token=WORDPIECE.unk,
                no_pretokenization=True,
            )
        except RuntimeError as error:
            raise InputError(
                f"{tokenizer.vocabulary_file}: TensorFlow Text cannot use this vocabulary: {error}"
            ) from error

    def __call__(self, text: tf.Tensor, max_ids: int | None = None) -> tf.RaggedTensor:
        """Returns the ids of lines of text, int32 (B, None)."""
        words = self._split(text)[:, :max_ids]
        # The limit of the op counts bytes; the vocabulary cannot spell a word beyond it.
        is_long = tf.strings.length(words.values, "UTF8_CHAR") > MAX_WORD_LENGTH
        unknown = "a" * (MAX_WORD_LENGTH * _MAX_BYTES_PER_CHARACTER + 1)
        words = words.with_values(tf.where(is_long, unknown, words.values))
        ids = self._wordpiece.tokenize(words).merge_dims(1, 2)[:, :max_ids]
        return tf.gather(self._ids, ids) if self._added.ids else ids

    def _split(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits lines into words and, with marks around them, added tokens, string (B, None)."""
        if self._added.ids:
            text = self._mark_raw_tokens(text)
        characters = tf.strings.unicode_decode(text, "UTF-8")
        if self._lower_case:
            characters = lower_sigmas(characters, _dropped_characters())
        replaced = self._characters.replace(characters.values)
        characters = replaced.to_ragged(characters.row_splits)
        if self._lower_case:
            characters = sort_marks(characters, _marks_of_words())
        cleaned = tf.strings.unicode_encode(characters, "UTF-8")
        if self._added.ids:
            known = filter(None, (_MARKED_RAW, alternatives(self._added.normalized)))
            cleaned = tf.strings.regex_replace(
                cleaned, f"({'|'.join(known)})", rf"{_MARK}\1{_MARK}"
            )
        return tf.strings.split(tf.strings.regex_replace(cleaned, self._words, r" \1 "))

    def _mark_raw_tokens(self, text: tf.Tensor) -> tf.Tensor:
        text = tf.strings.regex_replace(text, f"[{_MARKS}]", _NO_MARK)
        if not self._added.raw:
            return text
        pattern = f"({alternatives(self._added.raw)})"
        return tf.strings.regex_replace(text, pattern, rf" {_RAW_MARK}\1{_RAW_MARK} ")


def _distinct_pieces(tokenizer: WordPieceTokenizer) -> dict[str, int]:
    """Returns the pieces and, with marks, the added tokens, as words have them, and their ids.

    All differ, as the op demands.
    """
    added = tokenizer.added
    pieces = {
        piece if piece != UNREACHED and id_ < added.num_spelled else f"{UNREACHED}{id_}": id_
        for id_, piece in enumerate(tokenizer.pieces)
    }
    raw = {
        _RAW_MARK + clean_text(token, tokenizer.lower_case) + _RAW_MARK: id_
        for token, id_ in added.raw.items()
    }
    marked = {_MARK + token + _MARK: id_ for token, id_ in (added.normalized | raw).items()}
    return pieces | marked


@functools.cache
def _dropped_characters() -> frozenset[str]:
    return frozenset(filter(is_dropped, characters_of_unicode()))


@functools.cache
def _word_characters() -> str:
    return character_class(filter(is_word, characters_of_unicode()))


@functools.cache
def _clean_characters(lower_case: bool) -> dict[int, list[int]]:
    """Returns what each character that changes becomes by itself."""

    def clean(char: str) -> str:
        cleaned = clean_text(char, lower_case)
        return " " if cleaned.isspace() else cleaned

    return {
        ord(char): [ord(part) for part in cleaned]
        for char in characters_of_unicode()
        if (cleaned := clean(char)) != char
    }


@functools.cache
def _marks_of_words() -> frozenset[str]:
    """Returns the combining marks that are no accents, which words keep."""
    return frozenset(char for char in combining_marks() if not is_accent(char))
