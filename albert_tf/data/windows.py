"""Cuts texts of any length into overlapping windows, whose tokens have exact character offsets.

The one place for this: question answering and token classification both read long texts in windows.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from albert_tf.tokenization import Tokenizer

# Among the windows of a text, a token is scored in the one that shows most context around it: the lesser
# of the contexts to the left and to the right, plus this much per token of the window's part of the text
# (the original's `_check_is_max_context`). The first of equal windows counts. So the windows that score
# consecutive tokens are in order.
WINDOW_LENGTH_WEIGHT = 0.01


@dataclasses.dataclass(frozen=True)
class TextWindowConfig:
    """How texts are cut into windows.

    Attributes:
        max_seq_length: maximum number of tokens of a window, special tokens included.
        doc_stride: number of tokens between the starts of two neighbouring windows.
    """

    max_seq_length: int = 384
    doc_stride: int = 128


class Passage(NamedTuple):
    """The n tokens of a text.

    Attributes:
        ids: int32 (n,).
        starts: int32 (n,), first character of each token in the text.
        ends: int32 (n,), the character after the last.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def find_tokens(self, start: int, end: int) -> tuple[int, int]:
        """Returns the first and the last token of the characters `start` to `end - 1`.

        Characters without a token, such as white space at the end of the passage, belong to the nearest
        token inside.
        """
        last_token = len(self.ids) - 1
        first = min(int(np.searchsorted(self.ends, start, side="right")), last_token)
        last = int(np.searchsorted(self.starts, end - 1, side="right")) - 1
        return first, max(first, last)


def encode_passage(text: str, tokenizer: Tokenizer) -> Passage:
    """Returns the tokens of a text."""
    ids, spans = tokenizer.encode_with_offsets(text)
    starts, ends = np.array(spans, np.int32).reshape(-1, 2).T
    return Passage(np.array(ids, np.int32), starts.copy(), ends.copy())


def cut_passage(length: int, size: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first tokens of the windows of a passage and the tokens after the last, int (windows,).

    Neighbouring windows start `stride` tokens apart, at least 1, but skip no token. The first window
    that reaches the end of the passage is the last one. `length` and `size` are numbers of tokens: of
    the passage, and at most of its part in a window.
    """
    step = min(size, stride)
    count = min(length, 1) + max(0, -(-(length - size) // step))
    starts = np.arange(count) * step
    return starts, np.minimum(starts + size, length)


def find_max_context(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Finds for each token of a passage the window with most context around it, int (tokens,).

    See `WINDOW_LENGTH_WEIGHT` for the measure. The windows begin at the tokens `starts` and end before
    the tokens `ends`, int (windows,), ascending.
    """
    tokens = ends.max(initial=0)
    best = np.zeros(tokens, np.int64)
    best_scores = np.full(tokens, -np.inf)
    # One window at a time, since a passage may be as long as a book.
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        left = np.arange(end - start)
        scores = np.minimum(left, left[::-1]) + WINDOW_LENGTH_WEIGHT * (end - start)
        better = start + np.flatnonzero(scores > best_scores[start:end])
        best[better] = number
        best_scores[better] = scores[better - start]
    return best
