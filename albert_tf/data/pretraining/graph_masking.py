"""Dynamic masking: the input pipeline masks batches of unmasked sequences.

A corpus is written once, and every pass over it sees other masks. The distribution of the masks is that
of `albert_tf.data.pretraining.masking`, whose docstrings cite the sources. Only the form differs: this is
a TensorFlow graph over a whole batch, which the input pipeline runs on all cores.

Whether an n-gram is chosen depends on those chosen before it. So choosing is a loop over the drawn
n-grams: one loop for the whole batch, with as many turns as its longest sequence needs.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.pretraining.masking import (
    SHOWN_AS_MASK,
    SHOWN_UNCHANGED,
    MaskingConfig,
    find_boundaries,
)
from albert_tf.tokenization import Tokenizer

# More pieces than any sequence has: an n-gram of this size is never chosen.
_TOO_LARGE = 2**30


class WordsOfBatch(NamedTuple):
    """The words of a batch of sequences, each from left to right.

    Attributes:
        word_of_piece: word of each piece, -1 for special pieces and padding, int32 (B, S).
        sizes: number of pieces of each word, 0 after the last word, int32 (B, S).
        segments: segment of each word, from 0, int32 (B, S).
    """

    word_of_piece: tf.Tensor
    sizes: tf.Tensor
    segments: tf.Tensor


class DynamicMasker:
    """Masks batches of unmasked records (`albert_tf.data.record_spec.unmasked_record`).

    Args:
        tokenizer: tokenizer of the records' vocabulary; tells which pieces are special, and which can
            replace a chosen one.
        config: how pieces are chosen.
    """

    def __init__(self, tokenizer: Tokenizer, config: MaskingConfig):
        self.config = config
        self._cls_id = tokenizer.cls_id
        self._sep_id = tokenizer.sep_id
        self._mask_id = tokenizer.mask_id
        self._ordinary_ids = tokenizer.ordinary_ids

    def __call__(self, batch: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Masks a batch; for use in `tf.data.Dataset.map`.

        Args:
            batch: `input_ids`, `input_mask` and `token_boundary`, int32 (B, S), and any other features.
                S has to be known statically.
            seed: integers (2,). Equal seeds and batches give equal masks.

        Returns:
            The batch with masked `input_ids`, and with `masked_lm_positions` and `masked_lm_ids`, int32
            (B, M), and `masked_lm_weights`, float32 (B, M), like a record with static masks. Positions
            increase; if there are fewer than M, zeros follow.
        """
        input_ids = batch["input_ids"]
        # Per piece, three draws: a word's place in the order, its n-gram's length, and what is shown.
        draws = tf.random.stateless_uniform(tf.concat([[3], tf.shape(input_ids)], 0), seed)
        words = self._find_words(batch)
        chosen_words = choose_ngrams(words, self._goals(batch), self.config, draws[0], draws[1])
        is_chosen = _gather(chosen_words, tf.maximum(words.word_of_piece, 0))
        is_chosen &= words.word_of_piece >= 0  # (B, S)
        positions, weights = _list_positions(is_chosen, self.config.max_predictions_per_seq)
        return {
            **batch,
            "input_ids": tf.where(is_chosen, self._show(input_ids, draws[2], seed), input_ids),
            "masked_lm_positions": positions,
            "masked_lm_ids": _gather(input_ids, positions) * tf.cast(weights, tf.int32),
            "masked_lm_weights": weights,
        }

    def _find_words(self, batch: dict[str, tf.Tensor]) -> WordsOfBatch:
        """Returns the words; the first piece of a segment always begins one."""
        input_ids = batch["input_ids"]
        is_special = (input_ids == self._cls_id) | (input_ids == self._sep_id)
        is_text = (batch["input_mask"] == 1) & ~is_special  # (B, S)
        begins = is_text
        if self.config.do_whole_word_mask:
            follows_text = tf.pad(is_text[:, :-1], [[0, 0], [1, 0]])
            begins &= (batch["token_boundary"] == 1) | ~follows_text
        word_of_piece = tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1
        word_of_piece = tf.where(is_text, word_of_piece, -1)
        segment = tf.cumsum(tf.cast(is_special, tf.int32), axis=1) - 1
        return WordsOfBatch(
            word_of_piece,
            _sum_by_word(tf.cast(is_text, tf.int32), word_of_piece),
            _sum_by_word(tf.where(begins, segment, 0), word_of_piece),
        )

    def _goals(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns `MaskingConfig.num_predictions` of each sequence, int32 (B,)."""
        lengths = tf.cast(tf.reduce_sum(batch["input_mask"], axis=1), tf.float64)
        goals = tf.cast(tf.round(lengths * self.config.masked_lm_prob), tf.int32)
        return tf.clip_by_value(goals, 1, self.config.max_predictions_per_seq)

    def _show(self, input_ids: tf.Tensor, draw: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws the ids that the model sees at positions that are chosen, int32 (B, S)."""
        other_seed = tf.random.experimental.stateless_fold_in(seed, 1)
        count = len(self._ordinary_ids)
        other = tf.random.stateless_uniform(tf.shape(input_ids), other_seed, 0, count, tf.int32)
        other = tf.gather(self._ordinary_ids, other)
        unchanged_or_other = tf.where(draw < SHOWN_AS_MASK + SHOWN_UNCHANGED, input_ids, other)
        return tf.where(draw < SHOWN_AS_MASK, self._mask_id, unchanged_or_other)


def find_vocabulary_fault(record: Mapping[str, np.ndarray], tokenizer: Tokenizer) -> str | None:
    """Returns a sign that a record was made with another vocabulary, or None.

    Args:
        record: features of an unmasked record, int (S,).
        tokenizer: tokenizer of the expected vocabulary.
    """
    is_real = record["input_mask"] == 1
    ids, received = record["input_ids"][is_real], record["token_boundary"][is_real]
    vocabulary = tokenizer.vocabulary_file
    if ids[:1].tolist() != [tokenizer.cls_id]:
        return f"begins with {ids[:1].tolist()}, but [CLS] is {tokenizer.cls_id} in {vocabulary}"
    expected = find_boundaries(tokenizer)[ids].astype(int)
    differing = np.flatnonzero(received != expected)
    if len(differing):
        at = differing[0]
        return (
            f"token_boundary of id {ids[at]} is {received[at]}, but {expected[at]} by {vocabulary}"
        )
    return None


def choose_ngrams(
    words: WordsOfBatch,
    goals: tf.Tensor,
    config: MaskingConfig,
    order_draw: tf.Tensor,
    length_draw: tf.Tensor,
) -> tf.Tensor:
    """Chooses n-grams of words until they hold the wanted number of pieces of each sequence.

    Turn t considers the n-gram that starts at the t-th word of the drawn order, in every sequence.

    Args:
        words: words of the batch.
        goals: number of pieces to choose, int32 (B,).
        config: gives the probabilities of the lengths.
        order_draw: uniform in [0, 1), float32 (B, S); greater values come first.
        length_draw: uniform in [0, 1), float32 (B, S).

    Returns:
        Which words are chosen, bool (B, S).
    """
    is_word = words.sizes > 0
    order = tf.argsort(tf.where(is_word, order_draw, -1.0), axis=1, direction="DESCENDING")
    sizes = _gather(_ngram_sizes(words, config, length_draw), order)  # (B, S, ngram)
    # The values of a turn are contiguous. Each sequence is padded by `ngram` words, so that n-grams at
    # its end fit.
    sizes = tf.transpose(sizes, [1, 0, 2])  # (S, B, ngram)
    batch_size, width = tf.shape(order)[0], order.shape[1] + config.ngram
    rows = tf.range(batch_size)[:, None] * width
    starts = tf.transpose(order + rows)[..., None] + tf.range(config.ngram)  # (S, B, ngram)
    turns = tf.reduce_max(tf.reduce_sum(tf.cast(is_word, tf.int32), axis=1))

    def wants_more(turn, goals, _):
        return (turn < turns) & tf.reduce_any(goals > 0)

    def take_turn(turn, goals, times_chosen):
        # An n-gram with more pieces than are still wanted loses words from its end. If none is left,
        # or if it overlaps a chosen word, it is skipped.
        fits = sizes[turn] <= goals[:, None]  # (B, ngram): True for its words, then False
        places = starts[turn]
        is_met = tf.gather(times_chosen, places) > 0
        takes = fits & ~tf.reduce_any(fits & is_met, axis=1)[:, None]
        # No in-place scatter operator takes booleans on CPU.
        times_chosen = tf.tensor_scatter_nd_add(
            times_chosen, places[..., None], tf.cast(takes, tf.int32)
        )
        goals -= tf.reduce_max(tf.where(takes, sizes[turn], 0), axis=1)
        return turn + 1, goals, times_chosen

    nothing = tf.zeros([batch_size * width], tf.int32)
    _, _, times_chosen = tf.while_loop(wants_more, take_turn, (0, goals, nothing))
    return tf.reshape(times_chosen > 0, [batch_size, width])[:, : order.shape[1]]


def _ngram_sizes(words: WordsOfBatch, config: MaskingConfig, draw: tf.Tensor) -> tf.Tensor:
    """Returns the number of pieces of the first 1, 2, ... words of each n-gram, int32 (B, S, ngram).

    It is `_TOO_LARGE` from the first word on that is beyond the drawn length or the segment's end.
    """
    sizes, segments = (
        tf.pad(rows, [[0, 0], [0, config.ngram]]) for rows in (words.sizes, words.segments)
    )
    count = words.sizes.shape[1]
    # An n-gram has more than k words with probability 1 - p(1) - ... - p(k).
    bounds = [0.0, *config.ngram_probabilities.cumsum()[:-1].tolist()]
    total, belongs, totals = 0, True, []
    for k, bound in enumerate(bounds):
        size, segment = sizes[:, k : k + count], segments[:, k : k + count]
        belongs &= (size > 0) & (segment == words.segments) & (draw >= bound)
        total += size
        totals.append(tf.where(belongs, total, _TOO_LARGE))
    return tf.stack(totals, axis=2)


def _list_positions(is_chosen: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the chosen positions, increasing, int32 (B, M), and a weight of 1.0 for each.

    Args:
        is_chosen: bool (B, S), with at most M positions per row.
        count: M.
    """
    length = is_chosen.shape[1]
    scores = tf.where(is_chosen, tf.range(length, 0, -1), 0)
    scores = tf.pad(scores, [[0, 0], [0, max(0, count - length)]])
    scores = tf.math.top_k(scores, count).values  # (B, M): a chosen position p as S - p
    is_real = scores > 0
    return tf.where(is_real, length - scores, 0), tf.cast(is_real, tf.float32)


def _gather(rows: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Gathers from each row the values at the indices of that row, (B, ...)."""
    return tf.gather(rows, indices, axis=1, batch_dims=1)


def _sum_by_word(values: tf.Tensor, word_of_piece: tf.Tensor) -> tf.Tensor:
    """Sums values over the pieces of each word, (B, S); pieces of no word do not count."""
    batch_size, length = tf.shape(values)[0], values.shape[1]
    flat = tf.where(word_of_piece < 0, -1, word_of_piece + tf.range(batch_size)[:, None] * length)
    return tf.reshape(
        tf.math.unsorted_segment_sum(values, flat, batch_size * length), [batch_size, length]
    )
