"""Cuts texts of any length into overlapping windows, whose tokens and words have exact offsets.

Training and evaluation give these functions the tokens of `tokenize`, exported models those of their
graph tokenizer. So a served model gives the answers that were evaluated.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.graph_normalization import is_white_space, places_in_rows
from albert_tf.tokenization.in_graph import TokensWithOffsets
from albert_tf.tokenization.word_starts import WordTables, begin_words

# Bounds the memory of padded windows.
_CHARACTERS_AT_ONCE = 100_000

# Each token is scored in the window that maximises min(left, right context) + 0.01 * length, that of
# its part of the text (the original's `_check_is_max_context`); in the first of equal ones. So the
# windows that score consecutive tokens are in order.
_WINDOW_LENGTH_WEIGHT = 0.01


def chunks(texts: Sequence[str]) -> Iterator[slice]:
    """Yields slices of texts to cut at once, one or more."""
    numbers = np.cumsum([len(text) for text in texts]) // _CHARACTERS_AT_ONCE
    bounds = [0, *np.flatnonzero(np.diff(numbers)) + 1, len(texts)]
    return itertools.starmap(slice, itertools.pairwise(bounds))


def ragged_rows(rows: Sequence[Sequence[int]]) -> tf.RaggedTensor:
    """Returns B rows of numbers as int32 (B, None)."""
    values = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
    lengths = np.fromiter(map(len, rows), np.int64)
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)


def tokenize(texts: Sequence[str], tokenizer: Tokenizer) -> TokensWithOffsets:
    """Returns the tokens of B texts."""
    encoded = [tokenizer.encode_with_offsets(text) for text in texts]
    ids = ragged_rows([ids for ids, _ in encoded])
    spans = np.array([span for _, spans in encoded for span in spans], np.int64).reshape(-1, 2)
    return TokensWithOffsets(ids, *map(ids.with_values, spans.T))


class Words(NamedTuple):
    """The w words of some texts, in order: int64 (w,) each, arrays or tensors."""

    tokens: tf.Tensor  # index of the first token of each word
    texts: tf.Tensor  # its text
    starts: tf.Tensor  # its first character in the text, which is not white space
    ends: tf.Tensor  # the character after its last one


def find_words(tokens: TokensWithOffsets, characters: tf.RaggedTensor, tables: WordTables) -> Words:
    """Finds the words of B texts, given as code points, int32 (B, None), and as tokens.

    The tokens of a word are indices into those of all texts. A group of tokens without a visible
    character is no word.
    """
    ids, starts, ends = (values.values for values in tokens)
    texts, places = places_in_rows(tokens.ids.row_splits)
    is_first = places == 0
    begins = begin_words(
        opens=tf.gather(tables.opens, ids),
        closes_before=tf.where(is_first, 2, tf.roll(tf.gather(tables.closes, ids), 1, 0)),
        starts=starts,
        ends_before=tf.where(is_first, tf.zeros_like(ends), tf.roll(ends, 1, 0)),
    )
    firsts = tf.where(begins)[:, 0]
    # The first token of each text begins a word, so no word spans two texts.
    lasts = tf.concat([firsts[1:], tf.size(ids, tf.int64)[None]], axis=0)[: tf.size(firsts)] - 1
    texts = tf.gather(texts, firsts)
    offsets = tf.gather(characters.row_starts(), texts)
    visible = tf.where(~is_white_space(characters.values))[:, 0]
    from_visible, to_visible = (
        tf.searchsorted(visible, offsets + limits, out_type=tf.int64)
        for limits in (tf.gather(starts, firsts), tf.gather(ends, lasts))
    )
    kept = tf.where(from_visible < to_visible)[:, 0]
    firsts, texts, offsets, from_visible, to_visible = (
        tf.gather(values, kept) for values in (firsts, texts, offsets, from_visible, to_visible)
    )
    starts = tf.gather(visible, from_visible) - offsets
    return Words(
        tokens=firsts,
        texts=texts,
        starts=starts,
        ends=tf.gather(visible, to_visible - 1) + 1 - offsets,
    )


class Windows(NamedTuple):
    """W windows of texts, padded to S; arrays or tensors."""

    example_indices: tf.Tensor  # int (W,), the text of each window
    token_starts: tf.Tensor  # int (W, S), the first character that each token stands for
    token_ends: tf.Tensor  # int (W, S), the character after its last; 0 outside the text
    # Whether it is a token of the text that no other window has more context around, bool (W, S).
    token_is_max_context: tf.Tensor


def cut_windows(
    passages: TokensWithOffsets,
    cls_id: int | tf.Tensor,
    sep_id: int | tf.Tensor,
    max_seq_length: int | tf.Tensor,
    doc_stride: int | tf.Tensor,
    question_ids: tf.RaggedTensor | None = None,
) -> tuple[dict[str, tf.Tensor], Windows, tf.Tensor]:
    """Cuts B passages into windows `[CLS] part of the passage [SEP]`.

    With questions, int32 (B, None), they are `[CLS] question [SEP] part of the passage [SEP]`. A window
    has at most `max_seq_length` tokens. Neighbouring windows start `doc_stride` tokens (1 or more) apart,
    but skip no token. The first window that reaches the end of the passage is its last one. A passage
    without tokens gets one window without any passage.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int32 (W, S), by name; the windows, in the order of
        the passages; and the indices of their tokens among those of all passages, int64 (W, S), which
        are the number of these outside the passage.
    """
    lengths = passages.ids.row_lengths()
    # Number of tokens before the passage.
    heads = tf.ones_like(lengths) if question_ids is None else question_ids.row_lengths() + 2
    plan = _plan_windows(lengths, heads, max_seq_length, doc_stride)
    layout = _lay_out(plan, heads)
    tokens = _find_tokens(passages.ids, plan, layout)

    def token_values(values: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.pad(values, [[0, 1]]), tokens)  # (W, S)

    other_ids = _other_ids(layout, plan.texts, cls_id, sep_id, question_ids)
    is_second = tf.zeros_like(layout.mask) if question_ids is None else layout.is_second
    inputs = {
        "input_ids": token_values(passages.ids.values) + other_ids,
        "input_mask": tf.cast(layout.mask, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32),
    }
    best = token_values(_find_max_context(passages.ids, plan))
    windows = Windows(
        example_indices=plan.texts,
        token_starts=token_values(passages.starts.values),
        token_ends=token_values(passages.ends.values),
        token_is_max_context=layout.is_passage & (best == plan.numbers[:, None]),
    )
    return inputs, windows, tokens


class _Plan(NamedTuple):
    """Which part of which of B texts each of W windows shows, int64 each.

    Attributes:
        lengths: number of tokens of each text, (B,).
        sizes: the most tokens of it that one window shows, (B,).
        steps: distance of the starts of neighbouring windows, (B,).
        counts: number of windows of each text, (B,).
        texts: the text of each window, (W,).
        numbers: the number of each window among those of its text, (W,).
        begins: the first token of the text that it shows, (W,).
        ends: the token after the last, (W,).
    """

    lengths: tf.Tensor
    sizes: tf.Tensor
    steps: tf.Tensor
    counts: tf.Tensor
    texts: tf.Tensor
    numbers: tf.Tensor
    begins: tf.Tensor
    ends: tf.Tensor


def _plan_windows(
    lengths: tf.Tensor,
    heads: tf.Tensor,
    max_seq_length: int | tf.Tensor,
    doc_stride: int | tf.Tensor,
) -> _Plan:
    """Plans the windows of texts with so many tokens, after so many others, int64 (B,) each."""
    sizes = tf.cast(max_seq_length, tf.int64) - heads - 1
    steps = tf.minimum(sizes, tf.cast(doc_stride, tf.int64))
    rest = tf.maximum(lengths - sizes, tf.zeros_like(lengths))
    counts = 1 - tf.math.floordiv(-rest, steps)
    texts, numbers = places_in_rows(tf.pad(tf.cumsum(counts), [[1, 0]]))
    begins = numbers * tf.gather(steps, texts)
    ends = tf.minimum(begins + tf.gather(sizes, texts), tf.gather(lengths, texts))
    return _Plan(
        lengths=lengths,
        sizes=sizes,
        steps=steps,
        counts=counts,
        texts=texts,
        numbers=numbers,
        begins=begins,
        ends=ends,
    )


class _Layout(NamedTuple):
    """What stands where in W windows, padded to S.

    Attributes:
        positions: int64 (S,).
        heads: number of tokens before the passage, int64 (W, 1).
        totals: number of all tokens, int64 (W, 1).
    """

    positions: tf.Tensor
    heads: tf.Tensor
    totals: tf.Tensor

    @property
    def mask(self) -> tf.Tensor:
        """Whether there is a token, bool (W, S), as the others are."""
        return self.positions < self.totals

    @property
    def is_second(self) -> tf.Tensor:
        """Whether it is behind the head: a token of the passage, or the last [SEP]."""
        return self.mask & (self.positions >= self.heads)

    @property
    def is_passage(self) -> tf.Tensor:
        """Whether it is a token of the passage."""
        return (self.positions >= self.heads) & (self.positions < self.totals - 1)

    @property
    def is_question(self) -> tf.Tensor:
        """Whether it is a token of the question."""
        return (self.positions > 0) & (self.positions < self.heads - 1)

    @property
    def is_sep(self) -> tf.Tensor:
        """Whether it is [SEP], if it is not [CLS]."""
        return (self.positions == self.heads - 1) | (self.positions == self.totals - 1)


def _lay_out(plan: _Plan, heads: tf.Tensor) -> _Layout:
    """Lays windows out, given the number of tokens before each passage, int64 (B,)."""
    heads = tf.gather(heads, plan.texts)[:, None]  # (W, 1)
    totals = heads + (plan.ends - plan.begins)[:, None] + 1
    # No passage at all is cut like an empty one.
    longest = tf.reduce_max(tf.pad(totals, [[0, 1], [0, 0]], constant_values=1))
    return _Layout(tf.range(longest), heads, totals)


def _find_tokens(ids: tf.RaggedTensor, plan: _Plan, layout: _Layout) -> tf.Tensor:
    """Returns the index of each token among those of all passages, and of others their number."""
    starts = tf.gather(ids.row_starts(), plan.texts) + plan.begins
    outside = tf.size(ids.values, tf.int64)
    indices = starts[:, None] + layout.positions - layout.heads
    return tf.where(layout.is_passage, indices, outside)  # (W, S)


def _other_ids(
    layout: _Layout,
    texts: tf.Tensor,
    cls_id: int | tf.Tensor,
    sep_id: int | tf.Tensor,
    question_ids: tf.RaggedTensor | None,
) -> tf.Tensor:
    """Returns the ids around the passages, int32 (W, S); 0 for the passage and for padding."""
    others = tf.where(layout.positions == 0, cls_id, tf.where(layout.is_sep, sep_id, 0))
    if question_ids is None:
        return others
    tokens = tf.gather(question_ids.row_starts(), texts)[:, None] + layout.positions - 1
    tokens = tf.where(layout.is_question, tokens, 0)
    questions = tf.gather(tf.pad(question_ids.values, [[0, 1]]), tokens)
    return tf.where(layout.is_question, questions, others)


# Operation by operation, a short text takes ten times as long.
_cut_windows = tf.function(cut_windows, autograph=False, reduce_retracing=True)


def cut_into_arrays(
    passages: TokensWithOffsets,
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int,
    question_ids: tf.RaggedTensor | None = None,
) -> tuple[dict[str, np.ndarray], Windows, np.ndarray]:
    """Does what `cut_windows` does outside of graphs, but a passage without tokens gets no window."""
    # As tensors, since each number would have a graph of its own.
    cut = _cut_windows(
        passages,
        cls_id=tf.constant(tokenizer.cls_id),
        sep_id=tf.constant(tokenizer.sep_id),
        max_seq_length=tf.constant(max_seq_length),
        doc_stride=tf.constant(doc_stride),
        question_ids=question_ids,
    )
    has_passage = np.any(cut[-1] < tf.size(passages.ids.values, tf.int64), axis=1)
    return tf.nest.map_structure(lambda tensor: tensor.numpy()[has_passage], cut)


def _find_max_context(passages: tf.RaggedTensor, plan: _Plan) -> tf.Tensor:
    """Returns the number of the window with most context around each token, int64 (tokens,)."""
    rows, tokens = places_in_rows(passages.row_splits)
    tokens = tokens[:, None]  # (tokens, 1)
    # As many windows as can hold a token, up to the last that begins at or before it.
    overlaps = -tf.math.floordiv(-plan.sizes, plan.steps)
    overlap = tf.reduce_max(tf.pad(overlaps, [[0, 1]], constant_values=1))
    lengths, sizes, steps, counts = (
        tf.gather(values, rows)[:, None]
        for values in (plan.lengths, plan.sizes, plan.steps, plan.counts)
    )
    windows = tf.math.floordiv(tokens, steps) + tf.range(1 - overlap, 1)  # (tokens, overlap)
    begins = windows * steps
    ends = tf.minimum(begins + sizes, lengths)
    context = tf.minimum(tokens - begins, ends - 1 - tokens)
    score = tf.cast(context, tf.float64) + _WINDOW_LENGTH_WEIGHT * tf.cast(
        ends - begins, tf.float64
    )
    is_window = (windows >= 0) & (windows < counts) & (context >= 0)
    best = tf.argmax(tf.where(is_window, score, np.float64("-inf")), axis=1)
    return tf.gather(windows, best, batch_dims=1)
