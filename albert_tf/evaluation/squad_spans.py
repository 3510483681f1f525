"""Reads scored spans of characters from a model's outputs for windows of passages.

Each head has a function for its outputs. Both return the same type, and later steps need not know the
head. All windows of a batch are searched at once.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.data.fine_tuning.squad_windows import PassageWindows

_CLS_POSITION = 0


@dataclasses.dataclass(frozen=True)
class ScoredSpans:
    """K spans that may be answers, and the null scores of W windows.

    Attributes:
        examples: int (K,), index of the example.
        windows: int64 (K,), unique id of the window.
        starts: int (K,), position of the first token in the window.
        ends: int (K,), position of the last token.
        start_offsets: int (K,), first character in the passage.
        end_offsets: int (K,), the character after the last one.
        start_scores: float64 (K,), logit or log-probability of the start.
        end_scores: float64 (K,), logit or log-probability of the end.
        null_examples: int (W,), index of each window's example.
        null_scores: float64 (W,), confidence that the window holds no answer.
        null_is_span: whether null scores are sums of a start and an end score, namely those of `[CLS]`,
            so that the best answer's score has to be subtracted.
    """

    examples: np.ndarray
    windows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    start_offsets: np.ndarray
    end_offsets: np.ndarray
    start_scores: np.ndarray
    end_scores: np.ndarray
    null_examples: np.ndarray
    null_scores: np.ndarray
    null_is_span: bool


def simple_spans(
    windows: PassageWindows,
    outputs: Mapping[str, np.ndarray],
    n_best_size: int,
    max_answer_length: int,
) -> ScoredSpans:
    """Finds the spans between the best starts and the best ends (simple head).

    The null score is the score of `[CLS]` as start and end: Devlin et al. 2019,
    https://arxiv.org/abs/1810.04805, section 4.3.

    Args:
        windows: W windows.
        outputs: `start_logits` and `end_logits`, float (W, S).
        n_best_size: number of starts and of ends to try.
        max_answer_length: maximum number of tokens.
    """
    start_logits, end_logits = outputs["start_logits"], outputs["end_logits"]
    starts, ends = (_best_positions(logits, n_best_size) for logits in (start_logits, end_logits))
    null_logits = (logits[:, _CLS_POSITION] for logits in (start_logits, end_logits))
    return _valid_spans(
        windows,
        starts[:, :, None],  # (W, n, 1)
        ends[:, None, :],  # (W, 1, n)
        np.take_along_axis(start_logits, starts, axis=1)[:, :, None],
        np.take_along_axis(end_logits, ends, axis=1)[:, None, :],
        max_answer_length,
        null_scores=np.sum([*null_logits], axis=0, dtype=np.float64),
        null_is_span=True,
    )


def conditional_spans(
    windows: PassageWindows, outputs: Mapping[str, np.ndarray], max_answer_length: int
) -> ScoredSpans:
    """Reads the spans of the beam of a head whose ends are conditioned on starts (conditional head).

    Args:
        windows: W windows.
        outputs: `start_top_log_probs` and `start_top_index` (W, i), `end_top_log_probs` and
            `end_top_index` (W, i * j), the j best ends of each of i starts, and `cls_logits` (W,).
        max_answer_length: maximum number of tokens.
    """
    starts = outputs["start_top_index"][:, :, None]  # (W, i, 1)
    beam = (*starts.shape[:2], -1)  # (W, i, j)
    return _valid_spans(
        windows,
        starts,
        outputs["end_top_index"].reshape(beam),
        outputs["start_top_log_probs"][:, :, None],
        outputs["end_top_log_probs"].reshape(beam),
        max_answer_length,
        null_scores=outputs["cls_logits"].astype(np.float64),
        null_is_span=False,
    )


def concatenate_spans(parts: Sequence[ScoredSpans]) -> ScoredSpans:
    """Joins the spans of one or more batches of windows."""
    return ScoredSpans(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS},
        null_is_span=parts[0].null_is_span,
    )


_ARRAYS = [field.name for field in dataclasses.fields(ScoredSpans) if field.type is np.ndarray]


def _best_positions(logits: np.ndarray, count: int) -> np.ndarray:
    """Returns the positions of the highest logits (W, n); of equal ones the first come first."""
    return np.argsort(-logits, axis=1, kind="stable")[:, :count]


def _valid_spans(
    windows: PassageWindows,
    starts: np.ndarray,
    ends: np.ndarray,
    start_scores: np.ndarray,
    end_scores: np.ndarray,
    max_answer_length: int,
    null_scores: np.ndarray,
    null_is_span: bool,
) -> ScoredSpans:
    """Keeps the spans within the passage that are short enough and start in the window with most context.

    Args:
        windows: W windows.
        starts: int (W, i, 1), positions.
        ends: int (W, 1 or i, j), positions.
        start_scores: float, the shape of `starts`.
        end_scores: float, the shape of `ends`.
        max_answer_length: maximum number of tokens.
        null_scores: float64 (W,).
        null_is_span: the field of the result.
    """
    rows = np.arange(len(starts))[:, None, None]
    is_passage = windows.token_ends > 0  # (W, S)
    may_start = (is_passage & (windows.token_is_max_context > 0))[rows, starts]
    may_end = is_passage[rows, ends]
    lengths = ends - starts + 1  # (W, i, j)
    valid = may_start & may_end & (lengths >= 1) & (lengths <= max_answer_length)
    row = np.nonzero(valid)[0]
    starts, ends, start_scores, end_scores = (
        np.broadcast_to(values, valid.shape)[valid]
        for values in (starts, ends, start_scores, end_scores)
    )
    return ScoredSpans(
        examples=windows.example_indices[row],
        windows=windows.unique_ids[row],
        starts=starts,
        ends=ends,
        start_offsets=windows.token_starts[row, starts],
        end_offsets=windows.token_ends[row, ends],
        start_scores=start_scores.astype(np.float64),
        end_scores=end_scores.astype(np.float64),
        null_examples=windows.example_indices,
        null_scores=null_scores,
        null_is_span=null_is_span,
    )
