"""Cuts passages into windows in the graph, as `albert_tf.data.fine_tuning.packing` does in training."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.packing import WINDOW_LENGTH_WEIGHT
from albert_tf.tokenization.graph_normalization import places_in_rows
from albert_tf.tokenization.in_graph import TokensWithOffsets


class GraphWindows(NamedTuple):
    """W windows of B passages; each passage has one or more."""

    inputs: dict[str, tf.Tensor]  # `input_ids`, `input_mask`, `segment_ids`, int32 (W, S)
    examples: tf.Tensor  # int64 (W,), the passage of each window; ascending
    token_starts: tf.Tensor  # int64 (W, S), the first character that each token stands for
    token_ends: tf.Tensor  # int64 (W, S), the character after its last; 0 outside the passage
    # Whether it is a token of the passage that no other window has more context around, bool (W, S).
    is_max_context: tf.Tensor


def cut_windows(
    passage: TokensWithOffsets,
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
    doc_stride: int,
    question_ids: tf.RaggedTensor | None = None,
) -> GraphWindows:
    """Cuts passages into windows `[CLS] part of the passage [SEP]`.

    With questions, int32 (B, None), they are `[CLS] question [SEP] part of the passage [SEP]`. A passage
    without tokens gets one window without any passage.
    """
    lengths = passage.ids.row_lengths()
    # Number of tokens before the passage.
    heads = tf.ones_like(lengths) if question_ids is None else question_ids.row_lengths() + 2
    sizes = max_seq_length - heads - 1
    steps = tf.minimum(sizes, tf.constant(doc_stride, tf.int64))
    rest = tf.maximum(lengths - sizes, tf.zeros_like(lengths))
    counts = 1 - tf.math.floordiv(-rest, steps)
    examples, numbers = places_in_rows(tf.pad(tf.cumsum(counts), [[1, 0]]))  # (W,)

    begins = numbers * tf.gather(steps, examples)
    ends = tf.minimum(begins + tf.gather(sizes, examples), tf.gather(lengths, examples))
    first_lengths = tf.gather(heads, examples)[:, None]  # (W, 1)
    totals = first_lengths + (ends - begins)[:, None] + 1
    # No passage at all is cut like an empty one.
    longest = tf.reduce_max(tf.pad(totals, [[0, 1], [0, 0]], constant_values=1))
    positions = tf.range(longest)  # (S,)
    is_passage = (positions >= first_lengths) & (positions < totals - 1)  # (W, S)
    passage_starts = tf.gather(passage.ids.row_starts(), examples) + begins
    # Indices into the tokens of all passages and one more after the last.
    none = tf.size(passage.ids.values, tf.int64)
    tokens = tf.where(is_passage, passage_starts[:, None] + positions - first_lengths, none)

    def of_tokens(values: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.pad(values, [[0, 1]]), tokens)  # (W, S)

    is_sep = (positions == first_lengths - 1) | (positions == totals - 1)
    others = tf.where(positions == 0, cls_id, tf.where(is_sep, sep_id, 0))
    mask = positions < totals
    if question_ids is None:
        is_second = tf.zeros_like(mask)
    else:
        is_second = mask & (positions >= first_lengths)
        is_question = (positions > 0) & (positions < first_lengths - 1)
        questions = tf.gather(question_ids.row_starts(), examples)[:, None] + positions - 1
        of_question = tf.gather(
            tf.pad(question_ids.values, [[0, 1]]), tf.where(is_question, questions, 0)
        )
        others = tf.where(is_question, of_question, others)
    best = of_tokens(_find_max_context(passage.ids, lengths, sizes, steps, counts))
    return GraphWindows(
        inputs={
            "input_ids": of_tokens(passage.ids.values) + others,
            "input_mask": tf.cast(mask, tf.int32),
            "segment_ids": tf.cast(is_second, tf.int32),
        },
        examples=examples,
        token_starts=of_tokens(passage.starts.values),
        token_ends=of_tokens(passage.ends.values),
        is_max_context=is_passage & (best == numbers[:, None]),
    )


def _find_max_context(passages: tf.RaggedTensor, *cut: tf.Tensor) -> tf.Tensor:
    """Returns the number of the window with most context around each token, int64 (tokens,).

    `cut` are, int64 (B,) each, the lengths of the passages, the greatest length of a window, the distance
    of the starts of two windows, and the number of windows.
    """
    rows, tokens = places_in_rows(passages.row_splits)
    tokens = tokens[:, None]  # (tokens, 1)
    # As many windows as can hold a token, up to the last that begins at or before it.
    _, sizes, steps, _ = cut
    overlap = tf.reduce_max(tf.pad(-tf.math.floordiv(-sizes, steps), [[0, 1]], constant_values=1))
    lengths, sizes, steps, counts = (tf.gather(of_rows, rows)[:, None] for of_rows in cut)
    windows = tf.math.floordiv(tokens, steps) + tf.range(1 - overlap, 1)  # (tokens, overlap)
    begins = windows * steps
    ends = tf.minimum(begins + sizes, lengths)
    context = tf.minimum(tokens - begins, ends - 1 - tokens)
    score = tf.cast(context, tf.float64) + WINDOW_LENGTH_WEIGHT * tf.cast(ends - begins, tf.float64)
    is_window = (windows >= 0) & (windows < counts) & (context >= 0)
    best = tf.argmax(tf.where(is_window, score, np.float64("-inf")), axis=1)
    return tf.gather(windows, best, batch_dims=1)
