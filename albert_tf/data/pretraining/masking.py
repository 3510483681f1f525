"""Masked language modelling: which pieces to predict, and what the model sees instead.

ALBERT masks n-grams of whole words (paper, section 4.1): a start is drawn at random, and a length n
with p(n) = (1/n) / sum_k (1/k), until 15 % of the sequence is chosen. 80 % of the chosen pieces are
replaced by [MASK], 10 % by another piece, and 10 % stay (BERT, section 3.1). Words and n-grams end at
their segment's end; [CLS] and [SEP] are never chosen.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.pretraining.segments import MAX_LENGTH
from albert_tf.errors import warn
from albert_tf.options import option
from albert_tf.tokenization import Tokenizer

# BERT (Devlin et al., 2019), section 3.1.
SHOWN_AS_MASK = 0.8
SHOWN_UNCHANGED = 0.1


@dataclasses.dataclass(frozen=True)
class MaskingConfig:
    """How pieces are chosen for prediction."""

    max_predictions_per_seq: int = option(
        "Maximum number of pieces to predict per sequence. With static masks it has to be the same in "
        "both commands.",
        20,
        least=1,
        most=MAX_LENGTH,
    )
    masked_lm_prob: float = option(
        "Share of a sequence's pieces to predict; its length includes [CLS] and [SEP].",
        0.15,
        least=1e-6,
        most=1,
    )
    ngram: int = option("Maximum length of a masked n-gram, in words.", 3, least=1)
    favor_shorter_ngram: bool = option(
        "Draw an n-gram's length n with probability proportional to 1/n, as in the paper. Otherwise the "
        "longest n-grams are the most likely: the probabilities are reversed.",
        True,
    )
    do_whole_word_mask: bool = option(
        "Mask words with all of their pieces. Otherwise each piece counts as a word.", True
    )

    @functools.cached_property
    def length_bounds(self) -> np.ndarray:
        """Cumulative probabilities of the lengths 1 to `ngram` - 1."""
        weights = 1.0 / np.arange(1, self.ngram + 1)
        probabilities = weights / weights.sum()
        if not self.favor_shorter_ngram:
            probabilities = probabilities[::-1]
        return np.cumsum(probabilities)[:-1]  # rounding might put the last below a draw

    def num_predictions(self, length: int) -> int:
        """Returns the number of pieces to predict in a sequence, at least one."""
        return min(self.max_predictions_per_seq, max(1, round(length * self.masked_lm_prob)))

    def warn_of_few_predictions(self, max_seq_length: int) -> None:
        """Warns if `max_predictions_per_seq` cuts the share of full sequences."""
        wanted = round(max_seq_length * self.masked_lm_prob)
        if wanted > self.max_predictions_per_seq:
            warn(
                f"max_predictions_per_seq={self.max_predictions_per_seq} is only "
                f"{self.max_predictions_per_seq / max_seq_length:.1%} of a sequence of {max_seq_length} "
                f"pieces; masked_lm_prob={self.masked_lm_prob:g} asks for {wanted}"
            )


class WordBounds(NamedTuple):
    """The words of a sequence, from left to right.

    Words of one segment touch (`ends[i] == starts[i + 1]`); between two segments there is a [SEP].
    """

    starts: np.ndarray  # the first position of each, int (W,)
    ends: np.ndarray  # the position after the last of each, int (W,)


class MaskedSequence(NamedTuple):
    """A sequence with its predictions."""

    input_ids: np.ndarray  # what the model sees, int32 (S,)
    positions: np.ndarray  # to predict, increasing, int (P,) with P <= M
    ids: np.ndarray  # the original ones at these positions, int32 (P,)


class Masker:
    """Masks sequences of one vocabulary."""

    def __init__(self, tokenizer: Tokenizer, config: MaskingConfig):
        self.config = config
        self._mask_id = tokenizer.mask_id
        self._ordinary_ids = tokenizer.ordinary_ids
        self._is_special = np.zeros(tokenizer.vocab_size, bool)  # (V,)
        self._is_special[[tokenizer.cls_id, tokenizer.sep_id]] = True
        self._is_boundary = find_boundaries(tokenizer)

    def __call__(
        self, input_ids: np.ndarray, begins_word: np.ndarray, rng: np.random.Generator
    ) -> MaskedSequence:
        """Masks one sequence, int32 (S,): [CLS] A [SEP] or [CLS] A [SEP] B [SEP], without padding.

        `begins_word`, bool (S,), says which of its pieces begin a word or are special.
        """
        words = self.find_words(input_ids, begins_word)
        goal = self.config.num_predictions(len(input_ids))
        starts, ends = words.starts.tolist(), words.ends.tolist()
        is_chosen = np.zeros(len(input_ids), bool)
        for first, last in choose_ngrams(words, goal, self.config, rng):
            is_chosen[starts[first] : ends[last - 1]] = True
        (positions,) = is_chosen.nonzero()
        ids = input_ids[positions]
        masked = input_ids.copy()
        masked[positions] = self._show(ids, rng)
        return MaskedSequence(masked, positions, ids)

    def find_words(self, input_ids: np.ndarray, begins_word: np.ndarray) -> WordBounds:
        """Returns the words of a sequence; the first piece of a segment always begins one."""
        begins = begins_word | (not self.config.do_whole_word_mask)
        is_special = self._is_special[input_ids]
        begins[1:] |= is_special[:-1]
        (places,) = begins.nonzero()  # of words, [CLS] and each [SEP]; a [SEP] is the last
        is_word = ~is_special[places[:-1]]
        return WordBounds(places[:-1][is_word], places[1:][is_word])

    def _show(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws the ids that the model sees at the chosen positions."""
        draw = rng.random(len(ids))
        other = self._ordinary_ids[rng.integers(len(self._ordinary_ids), size=len(ids))]
        unchanged_or_other = np.where(draw < SHOWN_AS_MASK + SHOWN_UNCHANGED, ids, other)
        return np.where(draw < SHOWN_AS_MASK, self._mask_id, unchanged_or_other)

    def mask_batch(
        self, batch: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Masks unmasked records, `input_ids`, `input_mask` and `token_boundary`, int32 (B, S), in order.

        Without `token_boundary` the vocabulary says which pieces begin a word. Returns the masked
        `input_ids`, and `pad` of the others.
        """
        input_ids, is_piece = batch["input_ids"].copy(), batch["input_mask"] == 1
        # Records were perhaps made with another rule than the vocabulary's.
        has_boundaries = "token_boundary" in batch
        begins_word = (
            batch["token_boundary"] == 1 if has_boundaries else self._is_boundary[input_ids]
        )
        rows = zip(input_ids, begins_word, is_piece.sum(axis=1).tolist(), strict=True)
        masked = [self(ids[:length], begins[:length], rng) for ids, begins, length in rows]
        input_ids[is_piece] = np.concatenate([sequence.input_ids for sequence in masked])
        return {"input_ids": input_ids, **self.pad(masked)}

    def pad(self, masked: Sequence[MaskedSequence]) -> dict[str, np.ndarray]:
        """Returns the predictions of N sequences as in `pretraining_record`: zeros are unused slots.

        `masked_lm_positions` and `masked_lm_ids` are int32 (N, M), `masked_lm_weights` float32 (N, M).
        """
        ids = [sequence.ids for sequence in masked]
        weights = mask_of(ids, self.config.max_predictions_per_seq)
        return {
            "masked_lm_positions": spread([sequence.positions for sequence in masked], weights),
            "masked_lm_ids": spread(ids, weights),
            "masked_lm_weights": weights.astype(np.float32),
        }


def mask_of(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Returns where N rows have values once they are padded to a length, bool (N, length)."""
    return np.arange(length) < np.array([len(row) for row in rows])[:, np.newaxis]


def spread(rows: Sequence[np.ndarray], mask: np.ndarray, padding: int = 0) -> np.ndarray:
    """Returns an array, int32, with the values of all rows, in order, where the mask is True."""
    padded = np.full(mask.shape, padding, np.int32)
    padded[mask] = np.concatenate(rows)
    return padded


def find_boundaries(tokenizer: Tokenizer) -> np.ndarray:
    """Returns which pieces begin a word or stand for no text ([CLS] and [SEP]), bool (V,)."""
    boundaries = tokenizer.word_start.copy()
    boundaries[[tokenizer.cls_id, tokenizer.sep_id]] = True
    return boundaries


def choose_ngrams(
    words: WordBounds, goal: int, config: MaskingConfig, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Draws n-grams of words, (first word, word after the last), until they hold `goal` pieces.

    Each word, in random order, starts an n-gram of random length. The n-gram stops at its segment's
    end. While it has more pieces than are still wanted, it loses its last word; if nothing is left, or
    if it overlaps a word chosen before, it is skipped.
    """
    count = len(words.starts)
    order = rng.permutation(count)
    lengths = config.length_bounds.searchsorted(rng.random(count), side="right") + 1
    starts, ends = words.starts.tolist(), words.ends.tolist()
    # The words that begin a segment: two words of one segment touch.
    borders = ((words.starts[1:] != words.ends[:-1]).nonzero()[0] + 1).tolist()
    chosen: list[tuple[int, int]] = []
    covered = bytearray(count)
    for first, length in zip(order.tolist(), lengths.tolist(), strict=True):
        last = min(first + length, count)
        for border in borders:
            if first < border < last:
                last = border
        while last > first and ends[last - 1] - starts[first] > goal:
            last -= 1
        if last == first or 1 in covered[first:last]:
            continue
        chosen.append((first, last))
        covered[first:last] = bytes([1]) * (last - first)
        goal -= ends[last - 1] - starts[first]
        if goal == 0:
            break
    return chosen
