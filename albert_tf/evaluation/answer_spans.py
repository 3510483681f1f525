"""Finds the answers to questions among the spans that a model predicts for windows of passages.

The functions are TensorFlow's: exported models call them in their graphs, evaluation eagerly. Of equal
scores the first counts, which is what `tf.math.top_k` and `tf.argmax` return on CPUs.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.squad_windows import NO_SPAN_LOG_PROB, NO_WINDOW_SCORE
from albert_tf.data.fine_tuning.windows import Windows
from albert_tf.tokenization.graph_normalization import is_white_space, places_in_rows

_NO_SPAN = np.float64("-inf")


class Candidates(NamedTuple):
    """What a head predicts for W windows: i starts and j ends of each of them, the best first."""

    starts: tf.Tensor  # int32 (W, i), positions
    ends: tf.Tensor  # int32 (W, i, j), or (W, 1, j) if they are the same for all starts
    start_scores: tf.Tensor  # float (W, i), logits or log-probabilities
    end_scores: tf.Tensor  # float, with the shape of the ends
    null_scores: tf.Tensor  # float64 (W,), confidence that the window holds no answer
    # True for the simple head: null scores are the scores of the span `[CLS]`, and null odds subtract the
    # best span's score.
    null_is_span: bool


def find_candidates(
    outputs: Mapping[str, tf.Tensor], input_mask: tf.Tensor, n_best_size: int
) -> Candidates:
    """Finds the spans that may be answers in what a span labeler returns for W windows.

    With `start_logits` and `end_logits`, float (W, S), they are those between the `n_best_size` best
    starts and ends. The null score is the score of `[CLS]` as start and end: Devlin et al. 2019,
    https://arxiv.org/abs/1810.04805, section 4.3.

    With `start_top_log_probs` and `start_top_index` (W, i), `end_top_log_probs` and `end_top_index`
    (W, i * j), the j best ends of each of i starts, and `cls_logits` (W,), they are those of this beam.
    """
    if "cls_logits" in outputs:
        starts = outputs["start_top_index"]
        count = starts.shape[1]
        beam = [tf.shape(starts)[0], count, outputs["end_top_index"].shape[1] // count]
        return Candidates(
            starts,
            ends=tf.reshape(outputs["end_top_index"], beam),
            start_scores=outputs["start_top_log_probs"],
            end_scores=tf.reshape(outputs["end_top_log_probs"], beam),
            null_scores=tf.cast(outputs["cls_logits"], tf.float64),
            null_is_span=False,
        )
    start_logits, end_logits = (
        tf.where(input_mask > 0, outputs[name], -np.inf) for name in ("start_logits", "end_logits")
    )
    count = tf.minimum(n_best_size, tf.shape(input_mask)[1])
    start_scores, starts = tf.math.top_k(start_logits, count)
    end_scores, ends = tf.math.top_k(end_logits, count)
    return Candidates(
        starts,
        ends=ends[:, None],
        start_scores=start_scores,
        end_scores=end_scores[:, None],
        null_scores=tf.cast(start_logits[:, 0], tf.float64) + tf.cast(end_logits[:, 0], tf.float64),
        null_is_span=True,
    )


def are_valid(windows: Windows, candidates: Candidates, max_answer_length: int) -> tf.Tensor:
    """Returns which spans may be answers, bool (W, i, j).

    They are within the passage, short enough, and start in the window with most context.
    """
    is_passage = windows.token_ends > 0  # (W, S)
    is_start = is_passage & windows.token_is_max_context
    may_start = tf.gather(is_start, candidates.starts, batch_dims=1)
    may_end = tf.gather(is_passage, candidates.ends, batch_dims=1)
    lengths = candidates.ends - candidates.starts[..., None] + 1
    return may_start[..., None] & may_end & (lengths >= 1) & (lengths <= max_answer_length)


def find_answers(
    context: tf.Tensor,
    input_mask: tf.Tensor,
    windows: Windows,
    outputs: Mapping[str, tf.Tensor],
    passage_lengths: tf.Tensor,
    n_best_size: int,
    max_answer_length: int,
    null_threshold: float,
) -> dict[str, tf.Tensor]:
    """Answers B questions from what a span labeler returns for the windows of their contexts.

    The contexts, string (B,), are of any length; `passage_lengths`, int64 (B,), are the numbers of their
    tokens. Questions with null scores above the threshold are unanswered.

    Returns:
        `answer`, string (B,), a part of the context without surrounding white space, empty if the
        question is unanswered; `start` and `end`, int32 (B,), its first character in the context and the
        one after its last, in code points as Python counts them, both 0 if it is empty; `score`, float32
        (B,), of the best span, whether it is the answer or not; `null_score`, float32 (B,), which is
        compared with the threshold.
    """
    candidates = find_candidates(outputs, input_mask, n_best_size)
    totals = tf.where(
        are_valid(windows, candidates, max_answer_length),
        tf.cast(candidates.start_scores, tf.float64)[..., None]
        + tf.cast(candidates.end_scores, tf.float64),
        _NO_SPAN,
    )
    starts, ends, scores = _find_best_spans(windows, candidates, totals, passage_lengths)
    lowest = tf.math.segment_min(candidates.null_scores, windows.example_indices)
    null_scores = tf.where(passage_lengths > 0, lowest, np.float64(NO_WINDOW_SCORE))
    if candidates.null_is_span:
        null_scores -= scores
    is_null = null_scores > tf.constant(null_threshold, tf.float64)
    text, start, end = _cut_out(
        context,
        tf.where(is_null, tf.zeros_like(starts), starts),
        tf.where(is_null, tf.zeros_like(ends), ends),
    )
    return {
        "answer": text,
        "start": start,
        "end": end,
        "score": tf.cast(scores, tf.float32),
        "null_score": tf.cast(null_scores, tf.float32),
    }


def _cut_out(
    context: tf.Tensor, start: tf.Tensor, end: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts the characters from `start` to `end` - 1 out of texts, without surrounding white space.

    Returns texts, string (B,), and their starts and ends, int32 (B,), both 0 if the text is empty.
    """
    characters = tf.strings.unicode_decode(context, "UTF-8")  # (B, None)
    rows, positions = places_in_rows(characters.row_splits)
    is_space = is_white_space(characters.values)
    is_inside = (positions >= tf.gather(start, rows)) & (positions < tf.gather(end, rows))
    # Rows without such characters get the greatest number as the first and the least as the last.
    seen = tf.where(is_inside & ~is_space)[:, 0]
    seen, seen_rows = tf.gather(positions, seen), tf.gather(rows, seen)
    first = tf.math.unsorted_segment_min(seen, seen_rows, characters.nrows())
    last = tf.math.unsorted_segment_max(seen, seen_rows, characters.nrows())
    is_empty = first > last
    start = tf.where(is_empty, tf.zeros_like(first), first)
    end = tf.where(is_empty, tf.zeros_like(last), last + 1)
    kept = (positions >= tf.gather(start, rows)) & (positions < tf.gather(end, rows))
    answers = tf.RaggedTensor.from_row_lengths(
        tf.gather(characters.values, tf.where(kept)[:, 0]), end - start, validate=False
    )
    return (
        tf.strings.unicode_encode(answers, "UTF-8"),
        tf.cast(start, tf.int32),
        tf.cast(end, tf.int32),
    )


def _find_best_spans(
    windows: Windows,
    candidates: Candidates,
    totals: tf.Tensor,
    passage_lengths: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the best span of each question over all of its windows.

    Returns its first character in the passage and the one after its last, int64 (B,), both 0 if no span
    is valid, and its score, float64 (B,).
    """
    shape = tf.shape(totals, tf.int64)
    totals = _flatten_rows(totals)
    best_spans = tf.argmax(totals, axis=1)  # (W,)
    window_scores = tf.reduce_max(totals, axis=1)

    # The first of the best windows of each question.
    ragged = tf.RaggedTensor.from_value_rowids(
        window_scores, windows.example_indices, nrows=tf.size(passage_lengths, tf.int64)
    )
    # One column more, which is never the first, for the case of no questions.
    question_scores = tf.pad(ragged.to_tensor(_NO_SPAN), [[0, 0], [0, 1]], constant_values=_NO_SPAN)
    best = ragged.row_starts() + tf.argmax(question_scores, axis=1)  # (B,)
    best_spans = tf.gather(best_spans, best)
    start = tf.gather(tf.gather(candidates.starts, best), best_spans // shape[2], batch_dims=1)
    ends = _flatten_rows(tf.broadcast_to(candidates.ends, shape))
    end = tf.gather(tf.gather(ends, best), best_spans, batch_dims=1)
    scores = tf.gather(window_scores, best)
    is_found = scores > _NO_SPAN
    scores = tf.where(is_found, scores, np.float64(2 * NO_SPAN_LOG_PROB))
    first = tf.gather(tf.gather(windows.token_starts, best), start, batch_dims=1)
    after = tf.gather(tf.gather(windows.token_ends, best), end, batch_dims=1)
    return (
        tf.where(is_found, first, tf.zeros_like(first)),
        tf.where(is_found, after, tf.zeros_like(after)),
        scores,
    )


def _flatten_rows(values: tf.Tensor) -> tf.Tensor:
    """Returns (W, ...) values as (W, n); TensorFlow infers no size where W is 0."""
    shape = tf.shape(values)
    return tf.reshape(values, [shape[0], tf.reduce_prod(shape[1:])])
