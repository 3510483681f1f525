"""Cuts SQuAD examples into windows: the question, and as much of the passage as fits next to it.

`[CLS] question [SEP] part of the passage [SEP]`. A long passage becomes several overlapping windows.
Every token of the passage has its character offsets, so that answers are cut from the original text.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.features import WindowFeatures, concatenate, strip_padding
from albert_tf.data.fine_tuning.squad_questions import Answer, SquadExample
from albert_tf.data.fine_tuning.windows import (
    Windows,
    chunks,
    cut_into_arrays,
    ragged_rows,
    tokenize,
)
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.in_graph import TokensWithOffsets

# Position of the answer in data without labels.
UNKNOWN_POSITION = -1

# The original's null score of a question whose passage has no token.
NO_WINDOW_SCORE = 1e6

# The original's score of the start, and of the end, where no span is valid.
NO_SPAN_LOG_PROB = -1e6

_LABELS = ("start_positions", "end_positions", "is_impossible")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadWindows(WindowFeatures):
    """All n windows of some examples, in the order of the examples: 13 bytes per token.

    The labels are `start_positions` and `end_positions`, the first and the last token of the answer, and
    `is_impossible`. In a window without the answer they are 0, the position of [CLS], and 1; if the data
    hold none, -1 and 0. The others are along `input_ids`, and 0 outside the passage.
    """

    # First character of each token in the passage, int32. With SentencePiece, white space before a word
    # belongs to its first token.
    token_starts: np.ndarray
    token_ends: np.ndarray  # the character after the last, int32
    # Whether no other window of the example shows more of the passage around the token, bool.
    token_is_max_context: np.ndarray

    def passages(self, rows: np.ndarray, length: int) -> Windows:
        """Returns the offsets of some windows, with zeros for padding."""
        mask, tokens = self.tokens_of(rows, length)

        def pad(values: np.ndarray) -> np.ndarray:
            padded = np.zeros(mask.shape, values.dtype)
            padded[mask] = values[tokens]
            return padded

        return Windows(
            example_indices=self.example_indices[rows],
            token_starts=pad(self.token_starts),
            token_ends=pad(self.token_ends),
            token_is_max_context=pad(self.token_is_max_context),
        )


def encode_windows(
    examples: Sequence[SquadExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
) -> SquadWindows:
    """Cuts examples into windows as `cut_windows` does; a passage without tokens has none.

    `max_seq_length` is `max_query_length` + 4 or more, so that a token of the passage fits.
    """
    parts = []
    with (
        tf.device("CPU"),
        Progress("making windows", "windows", delay=SECONDS_WITHOUT_PROGRESS) as progress,
    ):
        for chunk in chunks([example.context for example in examples]):
            part = _encode_chunk(
                examples[chunk],
                tokenizer,
                max_seq_length=max_seq_length,
                doc_stride=doc_stride,
                max_query_length=max_query_length,
            )
            part["example_indices"] += chunk.start
            parts.append(part)
            progress.update(len(part["lengths"]))
    arrays = concatenate(parts)
    return SquadWindows(
        input_ids=arrays["input_ids"],
        lengths=arrays["lengths"],
        first_lengths=arrays["first_lengths"],
        labels={name: arrays[name] for name in _LABELS},
        example_indices=arrays["example_indices"],
        token_starts=arrays["token_starts"],
        token_ends=arrays["token_ends"],
        token_is_max_context=arrays["token_is_max_context"].astype(bool),
    )


def _encode_chunk(
    examples: Sequence[SquadExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
) -> dict[str, np.ndarray]:
    """Returns the fields of `SquadWindows` and its labels by name, int32."""
    # Many questions have the same passage.
    numbers = {
        text: number for number, text in enumerate({example.context: 0 for example in examples})
    }
    tokens = tokenize(list(numbers), tokenizer)
    rows = np.array([numbers[example.context] for example in examples], np.int64)
    passages = tokens
    if len(numbers) < len(examples):
        passages = TokensWithOffsets(*(tf.gather(values, rows) for values in tokens))
    questions = tokenizer.encode_batch([example.question for example in examples])
    question_ids = ragged_rows([ids[:max_query_length] for ids in questions])
    inputs, windows, token_numbers = cut_into_arrays(
        passages, tokenizer, max_seq_length, doc_stride, question_ids
    )

    answers = [example.found_answer for example in examples]
    first_tokens, last_tokens = _find_tokens(answers, passages)[:, windows.example_indices]  # (W,)
    is_first = token_numbers == first_tokens[:, None]  # (W, S)
    is_last = token_numbers == last_tokens[:, None]  # (W, S)
    holds_answer = is_first.any(axis=1) & is_last.any(axis=1)  # (W,)
    without_answer = [
        0 if example.is_impossible or answer else UNKNOWN_POSITION
        for example, answer in zip(examples, answers, strict=True)
    ]
    absent = np.array(without_answer, int)[windows.example_indices]
    mask = inputs["input_mask"] > 0
    arrays = {
        **strip_padding(inputs),
        "example_indices": windows.example_indices,
        "token_starts": windows.token_starts[mask],
        "token_ends": windows.token_ends[mask],
        "token_is_max_context": windows.token_is_max_context[mask],
        "start_positions": np.where(holds_answer, is_first.argmax(axis=1), absent),
        "end_positions": np.where(holds_answer, is_last.argmax(axis=1), absent),
        "is_impossible": ~holds_answer & (absent == 0),
    }
    return {name: values.astype(np.int32) for name, values in arrays.items()}


def _find_tokens(answers: Sequence[Answer | None], passages: TokensWithOffsets) -> np.ndarray:
    """Returns the first and the last token of B answers among those of all passages, int64 (2, B).

    They are -1 without an answer or a token. Characters without a token, such as white space at the end
    of the passage, belong to the nearest token inside.
    """
    splits, starts, ends = (
        values.numpy()
        for values in (passages.ids.row_splits, passages.starts.values, passages.ends.values)
    )
    found = np.full((2, len(answers)), -1)
    for row, (answer, begin, end) in enumerate(zip(answers, splits[:-1], splits[1:], strict=True)):
        if answer and begin < end:
            first = begin + np.searchsorted(ends[begin:end], answer.start, side="right")
            last_character = answer.start + len(answer.text) - 1
            after = begin + np.searchsorted(starts[begin:end], last_character, side="right")
            first = min(first, end - 1)
            found[:, row] = first, max(first, after - 1)
    return found


def count_answer_tokens(examples: Sequence[SquadExample], windows: SquadWindows) -> np.ndarray:
    """Returns the number of tokens of each shortest answer, int (n,); 0 if it is in no window."""
    counts = np.zeros(len(examples), np.int64)
    firsts = windows.starts + windows.first_lengths
    lasts = windows.starts + windows.lengths - 1  # [SEP]
    for index, first, last in zip(windows.example_indices, firsts, lasts, strict=True):
        starts, ends = windows.token_starts[first:last], windows.token_ends[first:last]
        for answer in set(filter(examples[index].is_at_offset, examples[index].right_answers)):
            start = answer.start + len(answer.text) - len(answer.text.lstrip())
            end = answer.start + len(answer.text.rstrip())
            if starts[0] <= start and end <= ends[-1]:
                before = np.searchsorted(ends, start, side="right")
                count = np.searchsorted(starts, end - 1, side="right") - before
                counts[index] = min(counts[index] or count, count)
    return counts
