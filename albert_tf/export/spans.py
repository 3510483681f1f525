"""The best span of each question over all of its windows, in the graph.

It is the one that `albert_tf.evaluation` finds. Every choice there, of equal scores too, has its
counterpart here: `tf.math.top_k` and `tf.argmax` give the first of equal ones.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.squad.conventions import (
    NO_SPAN_LOG_PROB,
    NO_WINDOW_SCORE,
    PADDING_LOGIT,
)
from albert_tf.export.windows import GraphWindows

_IMPOSSIBLE = np.float64("-inf")


class BestSpans(NamedTuple):
    """The best span of each of B questions.

    Attributes:
        starts: int64 (B,), its first character in the passage; 0 where no span is valid, as its end.
        ends: int64 (B,), the character after its last.
        scores: float64 (B,), start and end score; -2e6 where no span is valid.
        null_scores: float64 (B,), how surely there is no answer, on the scale of `null_odds.json`.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor
    null_scores: tf.Tensor


class _Candidates(NamedTuple):
    """What a head says of W windows: i starts and for each j ends, the best first.

    Attributes:
        starts: int32 (W, i), positions.
        ends: int32 (W, i, j), positions.
        start_scores: float32 (W, i).
        end_scores: float32 (W, i, j).
        null_scores: float64 (W,).
        null_is_span: whether null scores are on the scale of a span's.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    start_scores: tf.Tensor
    end_scores: tf.Tensor
    null_scores: tf.Tensor
    null_is_span: bool


def find_best_spans(
    windows: GraphWindows,
    outputs: Mapping[str, tf.Tensor],
    passage_lengths: tf.Tensor,
    n_best_size: int,
    max_answer_length: int,
) -> BestSpans:
    """Finds the best span of each question.

    Args:
        windows: W of them, of B questions.
        outputs: of `AlbertSpanLabeler` or of `AlbertConditionalSpanLabeler` for the windows.
        passage_lengths: int64 (B,), tokens of each passage.
        n_best_size: of a simple head, how many starts and ends are tried.
        max_answer_length: the largest number of tokens.
    """
    if "cls_logits" in outputs:
        candidates = _conditional(outputs)
    else:
        candidates = _simple(windows, outputs, n_best_size)
    totals = _score(windows, candidates, max_answer_length)  # (W, i, j)
    shape = tf.shape(totals, tf.int64)
    totals = tf.reshape(totals, [shape[0], -1])
    in_window = tf.argmax(totals, axis=1)  # (W,)
    of_windows = tf.reduce_max(totals, axis=1)

    # The first of the best windows of each question.
    ragged = tf.RaggedTensor.from_value_rowids(
        of_windows, windows.examples, nrows=tf.size(passage_lengths, tf.int64)
    )
    best = ragged.row_starts() + tf.argmax(ragged.to_tensor(_IMPOSSIBLE), axis=1)  # (B,)
    in_window = tf.gather(in_window, best)
    start = tf.gather(tf.gather(candidates.starts, best), in_window // shape[2], batch_dims=1)
    ends = tf.reshape(candidates.ends, [shape[0], -1])
    end = tf.gather(tf.gather(ends, best), in_window, batch_dims=1)
    scores = tf.gather(of_windows, best)
    is_found = scores > _IMPOSSIBLE
    scores = tf.where(is_found, scores, np.float64(2 * NO_SPAN_LOG_PROB))
    lowest = tf.math.segment_min(candidates.null_scores, windows.examples)
    null_scores = tf.where(passage_lengths > 0, lowest, np.float64(NO_WINDOW_SCORE))
    first = tf.gather(tf.gather(windows.token_starts, best), start, batch_dims=1)
    after = tf.gather(tf.gather(windows.token_ends, best), end, batch_dims=1)
    return BestSpans(
        starts=tf.where(is_found, first, tf.zeros_like(first)),
        ends=tf.where(is_found, after, tf.zeros_like(after)),
        scores=scores,
        null_scores=null_scores - scores if candidates.null_is_span else null_scores,
    )


def _simple(
    windows: GraphWindows, outputs: Mapping[str, tf.Tensor], n_best_size: int
) -> _Candidates:
    mask = windows.inputs["input_mask"] > 0
    count = tf.minimum(n_best_size, tf.shape(mask)[1])
    start_logits, end_logits = (
        tf.where(mask, outputs[name], PADDING_LOGIT) for name in ("start_logits", "end_logits")
    )
    start_scores, starts = tf.math.top_k(start_logits, count)
    end_scores, ends = tf.math.top_k(end_logits, count)
    return _Candidates(
        starts,
        tf.repeat(ends[:, None], count, axis=1),
        start_scores,
        tf.repeat(end_scores[:, None], count, axis=1),
        tf.cast(start_logits[:, 0], tf.float64) + tf.cast(end_logits[:, 0], tf.float64),
        null_is_span=True,
    )


def _conditional(outputs: Mapping[str, tf.Tensor]) -> _Candidates:
    starts = outputs["start_top_index"]
    beam = [
        tf.shape(starts)[0],
        starts.shape[1],
        outputs["end_top_index"].shape[1] // starts.shape[1],
    ]
    return _Candidates(
        starts,
        tf.reshape(outputs["end_top_index"], beam),
        outputs["start_top_log_probs"],
        tf.reshape(outputs["end_top_log_probs"], beam),
        tf.cast(outputs["cls_logits"], tf.float64),
        null_is_span=False,
    )


def _score(windows: GraphWindows, candidates: _Candidates, max_answer_length: int) -> tf.Tensor:
    """Returns the scores of the spans, float64 (W, i, j), impossible where a span is not valid."""
    is_passage = windows.token_ends > 0  # (W, S)
    may_start = tf.gather(is_passage & windows.is_max_context, candidates.starts, batch_dims=1)
    may_end = tf.gather(is_passage, candidates.ends, batch_dims=1)
    lengths = candidates.ends - candidates.starts[..., None] + 1
    is_valid = may_start[..., None] & may_end & (lengths >= 1) & (lengths <= max_answer_length)
    totals = tf.cast(candidates.start_scores, tf.float64)[..., None] + tf.cast(
        candidates.end_scores, tf.float64
    )
    return tf.where(is_valid, totals, _IMPOSSIBLE)
