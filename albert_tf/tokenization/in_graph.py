"""The SentencePiece tokenizer as TensorFlow operations, for a SavedModel that takes raw text.

It gives the ids and offsets that `AlbertTokenizer` gives, whatever the Unicode version and locale of the
machine that serves the model: the tables come from the Python that exports it.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.tokenization.character_classes import classify_characters
from albert_tf.tokenization.graph_normalization import GraphNormalizer, NormalizedCharacters
from albert_tf.tokenization.replacements import Replacements
from albert_tf.tokenization.sentencepiece_tokenizer import AlbertTokenizer


class TokensWithOffsets(NamedTuple):
    """Ids, and where in the text they come from.

    Attributes:
        ids: int32 (B, None).
        starts: int64 (B, None), the first character of the original text that each id stands for.
        ends: int64 (B, None), the character after its last.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class GraphTokenizer(tf.Module):
    """Turns lines of text into ids, inside a graph.

    Malformed UTF-8 becomes U+FFFD, as it does when Python decodes a file with `errors="replace"`.

    One difference is left: where two ways to split are equally probable up to rounding, the SentencePiece
    inside tensorflow_text can choose another one than the Python package. How often it did is in
    docs/fidelity.md.

    Args:
        tokenizer: the tokenizer to follow.
    """

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__()
        classes = classify_characters(tokenizer.serialized_model, tokenizer.lower_case)
        self._normalize = GraphNormalizer(tokenizer.lower_case, classes)
        self._sentencepiece = tf_text.SentencepieceTokenizer(
            model=tokenizer.serialized_model, out_type=tf.int32
        )
        self._digit_commas = Replacements(tokenizer.digit_comma_splits)
        tails = [tails for _, tails in sorted(tokenizer.digit_comma_tails.items())]
        # Of each entry of the table the characters after it, and those after the one before it.
        self._tails = np.array([tail for row in tails for tail in row] + [0], np.int64)
        whole = np.iinfo(np.int32).max
        self._tails_before = np.array(
            [tail for row in tails for tail in [whole, *row[:-1]]] + [whole], np.int64
        )

    def __call__(self, text: tf.Tensor, max_ids: int | None = None) -> tf.RaggedTensor:
        """Returns the ids, int32 (B, None), of lines of UTF-8 text, string (B,).

        Args:
            text: the lines.
            max_ids: number of ids of each line to return at most; None for all. With it, the words of a
                long line that cannot matter are neither normalised nor split.
        """
        ids = self._split(self._normalize(text, max_pieces=max_ids)).ids
        return ids if max_ids is None else ids[:, :max_ids]

    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """Returns ids and offsets; see `AlbertTokenizer.encode_with_offsets` for what these are.

        Offsets count characters (code points), each malformed part of the UTF-8 as one.

        Args:
            text: lines of UTF-8 text, string (B,).
        """
        return self._split(self._normalize(text))

    def _split(self, characters: NormalizedCharacters) -> TokensWithOffsets:
        ids, starts, ends = self._sentencepiece.tokenize_with_offsets(characters.text)
        # As indices into the characters of all lines.
        firsts = characters.index_of_byte(starts)
        afters = characters.index_of_byte(ends)

        entries = self._digit_commas.find(ids.values)  # (pieces, None)
        pieces = entries.value_rowids()
        whole = tf.gather(firsts, pieces)
        afters = tf.gather(afters, pieces)
        firsts = tf.maximum(whole, afters - tf.gather(self._tails_before, entries.values))
        afters = tf.maximum(whole, afters - tf.gather(self._tails, entries.values))
        ids = ids.with_values(self._digit_commas.replace(ids.values, entries)).merge_dims(1, 2)
        return TokensWithOffsets(ids, *_original_offsets(characters, ids, firsts, afters))


def _original_offsets(
    characters: NormalizedCharacters, ids: tf.RaggedTensor, firsts: tf.Tensor, afters: tf.Tensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Turns indices of normalised characters into offsets in the original lines.

    Args:
        characters: of all lines.
        ids: int32 (B, None).
        firsts: int64 (ids,), the first character of each id.
        afters: int64 (ids,), the character after its last one.
    """
    ends_of_lines = tf.gather(characters.text_ends, ids.value_rowids())
    starts = tf.where(
        firsts < tf.gather(characters.row_limits, ids.value_rowids()),
        tf.gather(tf.pad(characters.starts, [[0, 1]]), firsts),
        ends_of_lines,
    )
    ends = tf.where(afters > firsts, tf.gather(tf.pad(characters.ends, [[1, 0]]), afters), starts)
    return ids.with_values(starts), ids.with_values(ends)
