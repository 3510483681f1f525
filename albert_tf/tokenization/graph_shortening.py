"""Which characters of a text its pieces need, as TensorFlow operations.

TensorFlow Text takes time that grows with the square of the length of a run of unknown characters, and a
long text need not be split beyond the ids that a model takes. What is left out here changes no piece.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.tokenization.characters import code_points
from albert_tf.tokenization.final_sigma import final_sigma_pattern
from albert_tf.tokenization.graph_normalization import (
    Replacements,
    is_one_of,
    places_in_rows,
    select,
    write_final_sigmas,
)
from albert_tf.tokenization.interface import WORD_MARK
from albert_tf.tokenization.normalization import read_normalizer, without_marks
from albert_tf.tokenization.sentencepiece_tokenizer import AlbertTokenizer


class _Classes(NamedTuple):
    """Classes of characters that become at most one, as code points, ascending, int32 (n,) each.

    Attributes:
        known: those that may become part of a piece. A run of other characters is one unknown piece,
            whatever its length and neighbours. None for a model that spells unknown characters in bytes.
        dropped: those that normalisation drops, wherever they are.
        spaces: those that become a space.
        words_are_apart: whether each word has a piece of its own, and its pieces do not depend on the
            words after it.
    """

    known: np.ndarray | None
    dropped: np.ndarray
    spaces: np.ndarray
    words_are_apart: bool


def _classify_characters(tokenizer: AlbertTokenizer, rules: Mapping[str, str]) -> _Classes:
    """Classifies characters by what a tokenizer's normalisation makes of them, and by its pieces."""
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.normalizing_model)
    pieces = [piece.piece for piece in model.pieces]
    # SentencePiece finds these before it normalises.
    user_defined = "".join(
        piece.piece for piece in model.pieces if piece.type == piece.USER_DEFINED
    )
    single = {old: new for old, new in rules.items() if len(old) == 1 and old not in user_defined}
    sequences = {old: new for old, new in rules.items() if len(old) > 1}

    parts = {" ", WORD_MARK, *"".join(pieces)}
    known = parts - single.keys()
    known.update(old for old, new in single.items() if not parts.isdisjoint(new))
    # A character that can combine with others into a known one counts as known.
    size = 0
    while len(known) > size:
        size = len(known)
        for old, new in sequences.items():
            if not new or not known.isdisjoint(old) or not parts.isdisjoint(new):
                known.update(old)
    return _Classes(
        known=None if model.trainer_spec.byte_fallback else code_points(known),
        dropped=code_points({old for old, new in single.items() if not new} - known),
        spaces=code_points({" ", WORD_MARK, *(old for old, new in single.items() if new == " ")}),
        words_are_apart=WORD_MARK in pieces
        and not any(" " in piece or WORD_MARK in piece[1:] for piece in pieces)
        and all(new.strip(f" {WORD_MARK}") == new != "" for new in sequences.values()),
    )


class KeptCharacters(NamedTuple):
    """Lines of text without some of their characters, n in all.

    Attributes:
        text: string (B,).
        positions: int64 (n,), the index of each character in its original line; the same for all that
            one character became.
        lengths: int64 (B,), numbers of characters of the original lines.
        row_limits: int64 (B,), number of characters up to the end of each line.
        byte_limits: int64 (n,), number of bytes in UTF-8 up to the end of each character.
    """

    text: tf.Tensor
    positions: tf.Tensor
    lengths: tf.Tensor
    row_limits: tf.Tensor
    byte_limits: tf.Tensor

    def index_of_byte(self, offsets: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the indices, int64 (m,), of the characters at some bytes.

        A byte is given by its offset in its line, int32 (m,), and the line, int64 (m,).
        """
        row_starts = tf.pad(self.row_limits, [[1, 0]])
        bytes_before = tf.gather(tf.pad(self.byte_limits, [[1, 0]]), row_starts)
        global_offsets = tf.cast(offsets, tf.int64) + tf.gather(bytes_before, rows)
        return tf.searchsorted(self.byte_limits, global_offsets, side="right", out_type=tf.int64)

    def original_spans(
        self, firsts: tf.Tensor, afters: tf.Tensor, rows: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Turns indices of characters into starts and ends in the original lines, int64 (m,) each.

        A span is given by its first character, the one after its last, and its line, int64 (m,) each.
        """

        def position(indices: tf.Tensor) -> tf.Tensor:
            in_row = indices < tf.gather(self.row_limits, rows)
            found = tf.gather(tf.pad(self.positions, [[0, 1]]), indices)
            return tf.where(in_row, found, tf.gather(self.lengths, rows))

        ends = position(afters)
        last = tf.gather(tf.pad(self.positions, [[1, 0]]), afters)
        is_inside = (firsts < afters) & (last == ends)
        return position(firsts), ends + tf.cast(is_inside, tf.int64)


class TextShortener:
    """Leaves out what changes no piece, and writes final sigmas if text is lower-cased.

    Characters that become several are replaced, too: SentencePiece counts such a character only for the
    last of the pieces that have a part of it.
    """

    def __init__(self, tokenizer: AlbertTokenizer):
        rules, _, expansions = read_normalizer(tokenizer.vocabulary, tokenizer.lower_case)
        self._expansions = Replacements(
            {ord(old): [ord(char) for char in new] for old, new in expansions.items()}
        )
        self._final_sigma = final_sigma_pattern(without_marks) if tokenizer.lower_case else None
        self._classes = _classify_characters(tokenizer, rules)

    def __call__(self, text: tf.Tensor, max_pieces: int | None = None) -> KeptCharacters:
        """Shortens UTF-8 text.

        Args:
            text: lines, string (B,).
            max_pieces: number of pieces of each line that are needed; None for all. A line with more
                words than this may be cut after one of them.
        """
        original = tf.strings.unicode_decode(text, "UTF-8")
        expanded = self._expansions.replace(original.values)
        lines = expanded.in_rows(original.row_splits)
        values, (rows, _) = lines.values, places_in_rows(lines.row_splits)
        positions = tf.gather(places_in_rows(original.row_splits)[1], expanded.origins)
        if max_pieces is not None and self._classes.words_are_apart:
            is_needed = self._is_needed(lines, rows, max_pieces)
            values, rows, positions = select(is_needed, values, rows, positions)
        if self._final_sigma is not None:
            values = write_final_sigmas(_lines(values, rows, text), self._final_sigma).values
        if self._classes.known is not None:
            is_kept = self._shorten_unknown_runs(values, rows)
            values, rows, positions = select(is_kept, values, rows, positions)
        byte_lengths = 1 + sum(
            tf.cast(values >= first, tf.int64) for first in (0x80, 0x800, 0x10000)
        )
        lines = _lines(values, rows, text)
        return KeptCharacters(
            text=tf.strings.unicode_encode(lines, "UTF-8"),
            positions=positions,
            lengths=original.row_lengths(),
            row_limits=lines.row_splits[1:],
            byte_limits=tf.cumsum(byte_lengths),
        )

    def _is_needed(self, lines: tf.RaggedTensor, rows: tf.Tensor, max_pieces: int) -> tf.Tensor:
        """Finds the characters of the first `max_pieces` words of each line, bool (n,).

        Only words that certainly have a piece count: those that end in a character that is not dropped.
        """
        is_space = is_one_of(lines.values, self._classes.spaces)
        before_space = tf.concat([is_space[1:], [False]], axis=0)
        ends_word = before_space & ~is_space & ~is_one_of(lines.values, self._classes.dropped)
        counts = tf.cumsum(tf.cast(ends_word, tf.int32), exclusive=True)
        # An empty last line begins after the last count.
        of_lines = tf.gather(tf.pad(counts, [[0, 1]]), lines.row_splits)
        return counts - tf.gather(of_lines, rows) < max_pieces

    def _shorten_unknown_runs(self, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Finds the characters that stay, bool (n,): of a run of unknown ones the first and the last.

        Characters that normalisation drops stay, and end no run.
        """
        is_dropped = is_one_of(values, self._classes.dropped)
        visible, rows = select(~is_dropped, values, rows)
        is_unknown = ~is_one_of(visible, self._classes.known)
        # Of two neighbours: whether they are in the same run.
        is_joined = is_unknown[1:] & is_unknown[:-1] & (rows[1:] == rows[:-1])
        is_inside = tf.pad(is_joined, [[1, 0]]) & tf.pad(is_joined, [[0, 1]])
        # The first element is for dropped characters before all others.
        is_kept = tf.concat([[True], ~is_inside[: tf.size(visible)]], axis=0)
        return is_dropped | tf.gather(is_kept, tf.cumsum(tf.cast(~is_dropped, tf.int32)))


def _lines(values: tf.Tensor, rows: tf.Tensor, text: tf.Tensor) -> tf.RaggedTensor:
    """Returns the characters of each line of a text, int32 (B, None)."""
    line_numbers = tf.range(tf.size(text, tf.int64) + 1)
    row_splits = tf.searchsorted(rows, line_numbers, out_type=tf.int64)
    return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
