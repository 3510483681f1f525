"""Masked language modelling: which pieces are to be predicted, and what the model sees instead.

ALBERT masks n-grams of whole words (paper, section 4.1): a start is drawn at random, and a length n
with p(n) = (1/n) / sum_k (1/k), until 15 % of the sequence is chosen. Of the chosen pieces 80 % are
shown as [MASK], 10 % as they are and 10 % as another piece (BERT, section 3.1). Words and n-grams
end where their segment ends; [CLS] and [SEP] are never chosen.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from albert_tf.tokenization import Tokenizer

# BERT (Devlin et al., 2019), section 3.1.
SHOWN_AS_MASK = 0.8
SHOWN_UNCHANGED = 0.1


@dataclasses.dataclass(frozen=True)
class MaskingRule:
    """How pieces are chosen.

    Attributes:
        max_predictions_per_seq: the largest number of pieces chosen in a sequence, M.
        masked_lm_prob: the share of a sequence that is chosen, special pieces counted in.
        ngram: the longest n-gram, in words.
        favor_shorter_ngram: p(n) falls with n as in the paper; otherwise the same shares in
            reverse, the longest n-gram being the likeliest.
        do_whole_word_mask: a word is chosen with all of its pieces; otherwise every piece counts
            as a word.
    """

    max_predictions_per_seq: int
    masked_lm_prob: float = 0.15
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True

    @functools.cached_property
    def ngram_probabilities(self) -> np.ndarray:
        """The probability of n = 1 to `ngram`, (ngram,)."""
        weights = 1.0 / np.arange(1, self.ngram + 1)
        probabilities = weights / weights.sum()
        return probabilities if self.favor_shorter_ngram else probabilities[::-1]

    @functools.cached_property
    def length_bounds(self) -> np.ndarray:
        """The uniform draw from which on an n-gram has n + 1 words, n = 1 to `ngram` - 1."""
        return np.cumsum(self.ngram_probabilities)[:-1]  # rounding might put the last below a draw

    def num_predictions(self, length: int) -> int:
        """Returns how many pieces of a sequence are to be chosen, at least one."""
        return min(self.max_predictions_per_seq, max(1, round(length * self.masked_lm_prob)))


class Words(NamedTuple):
    """The words of a sequence, from left to right.

    Attributes:
        starts: where each begins, int (W,).
        ends: where each ends, the position after its last piece, int (W,). Two words of one
            segment touch (`ends[i] == starts[i + 1]`); between two segments lies a [SEP].
    """

    starts: np.ndarray
    ends: np.ndarray


class MaskedSequence(NamedTuple):
    """A sequence with its predictions.

    Attributes:
        input_ids: what the model sees, int32 (S,).
        positions: what it has to predict, increasing, int (P,) with P <= M.
        ids: the pieces that were there, int32 (P,).
    """

    input_ids: np.ndarray
    positions: np.ndarray
    ids: np.ndarray


class Masker:
    """Masks sequences of one vocabulary by one rule.

    Args:
        tokenizer: says which pieces begin a word, which are special, and which may be drawn in
            place of a chosen one.
        rule: how pieces are chosen.
    """

    def __init__(self, tokenizer: Tokenizer, rule: MaskingRule):
        self.rule = rule
        self._mask_id = tokenizer.mask_id
        self._ordinary_ids = tokenizer.ordinary_ids
        self._is_special = np.zeros(tokenizer.vocab_size, bool)  # (V,)
        self._is_special[[tokenizer.cls_id, tokenizer.sep_id]] = True
        self._begins_word = find_boundaries(tokenizer)  # (V,)
        if not rule.do_whole_word_mask:
            self._begins_word[:] = True

    def __call__(self, input_ids: np.ndarray, rng: np.random.Generator) -> MaskedSequence:
        """Masks one sequence.

        Args:
            input_ids: [CLS] A [SEP] or [CLS] A [SEP] B [SEP], without padding, int32 (S,).
            rng: where every draw comes from.
        """
        words = self.find_words(input_ids)
        goal = self.rule.num_predictions(len(input_ids))
        starts, ends = words.starts.tolist(), words.ends.tolist()
        is_chosen = np.zeros(len(input_ids), bool)
        for first, last in choose_ngrams(words, goal, self.rule, rng):
            is_chosen[starts[first] : ends[last - 1]] = True
        (positions,) = is_chosen.nonzero()
        ids = input_ids[positions]
        masked = input_ids.copy()
        masked[positions] = self._show(ids, rng)
        return MaskedSequence(masked, positions, ids)

    def find_words(self, input_ids: np.ndarray) -> Words:
        """Returns the words of a sequence; the first piece of a segment always begins one."""
        is_special = self._is_special[input_ids]
        begins = self._begins_word[input_ids]
        begins[1:] |= is_special[:-1]
        (places,) = begins.nonzero()  # of words, [CLS] and each [SEP]; a [SEP] is the last
        is_word = ~is_special[places[:-1]]
        return Words(places[:-1][is_word], places[1:][is_word])

    def _show(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns what the model sees of the chosen pieces."""
        draw = rng.random(len(ids))
        other = self._ordinary_ids[rng.integers(len(self._ordinary_ids), size=len(ids))]
        unchanged_or_other = np.where(draw < SHOWN_AS_MASK + SHOWN_UNCHANGED, ids, other)
        return np.where(draw < SHOWN_AS_MASK, self._mask_id, unchanged_or_other)


def find_boundaries(tokenizer: Tokenizer) -> np.ndarray:
    """Returns which pieces begin a word or stand for no text ([CLS] and [SEP]), bool (V,)."""
    boundaries = tokenizer.word_start.copy()
    boundaries[[tokenizer.cls_id, tokenizer.sep_id]] = True
    return boundaries


def choose_ngrams(
    words: Words, goal: int, rule: MaskingRule, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Draws n-grams of words until they hold `goal` pieces.

    Each word, in random order, is the start of an n-gram of random length. One that runs over its
    segment's end stops there. One with more pieces than are still wanted loses words from its
    end, and is left out when its first word alone has too many. One that meets a word chosen
    before is left out, not shortened.

    Args:
        words: the words of the sequence.
        goal: how many pieces to choose.
        rule: gives the probabilities of the lengths.
        rng: where every draw comes from.

    Returns:
        (first word, word after the last) of each n-gram, in the order of the draw.
    """
    count = len(words.starts)
    order = rng.permutation(count)
    lengths = rule.length_bounds.searchsorted(rng.random(count), side="right") + 1
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
