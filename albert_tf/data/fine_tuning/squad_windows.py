"""Cuts SQuAD examples into windows: the question, and as much of the passage as fits next to it.

`[CLS] question [SEP] part of the passage [SEP]`. A long passage becomes several overlapping windows.
Every token of the passage has its character offsets, so that answers are cut from the original text.

Training, evaluation and the exported graph follow the same conventions, so that a served model gives the
answers that were evaluated.
"""

import array
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.packing import check_max_seq_length
from albert_tf.data.fine_tuning.squad_questions import SquadExample
from albert_tf.data.windows import (
    Passage,
    TextWindowConfig,
    cut_passage,
    encode_passage,
    find_max_context,
)
from albert_tf.errors import InputError
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tokenization import Tokenizer

# Position of the answer in data without labels.
UNKNOWN_POSITION = -1

# Logit of padding, below every logit that a model returns: answers must not depend on the amount of
# padding, which differs between batches.
PADDING_LOGIT = -1e30

# The original's null score of a question whose passage has no token.
NO_WINDOW_SCORE = 1e6

# The original's score of the start, and of the end, where no span is valid.
NO_SPAN_LOG_PROB = -1e6

# Number of the first window, as in the original.
_FIRST_UNIQUE_ID = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class WindowConfig(TextWindowConfig):
    """How questions and passages are cut into windows.

    Attributes:
        max_seq_length: maximum number of tokens of a window, special tokens included.
        doc_stride: number of tokens between the starts of two neighbouring windows in the passage.
        max_query_length: maximum number of tokens of a question; the rest of it is dropped.
    """

    max_query_length: int = 64

    def __post_init__(self):
        super().__post_init__()
        if self.max_query_length < 1:
            raise InputError(f"max_query_length={self.max_query_length}: expected at least 1")
        check_max_seq_length(
            self.max_seq_length,
            self.max_query_length + 4,
            f"[CLS] max_query_length={self.max_query_length} tokens [SEP] a token [SEP]",
        )


class Window(NamedTuple):
    """A question and a part of its passage, n tokens without padding.

    Tokens outside the passage have the offsets 0 and 0 and are not of maximum context.

    Attributes:
        example_index: index of the example.
        input_ids: int32 (n,).
        question_length: number of tokens of segment 0, `[CLS] question [SEP]`.
        token_starts: int32 (n,), first character of each token in the passage. With SentencePiece,
            white space before a word belongs to the word's first token.
        token_ends: int32 (n,), the character after the last.
        token_is_max_context: int32 (n,), 1 if no other window of the example shows more of the passage
            around the token, otherwise 0.
        start_position: first token of the answer; 0, the position of [CLS], if the window does not hold
            the answer; -1 if the data hold none.
        end_position: last token of the answer, or the same values.
        is_impossible: 1 if the window does not hold the answer or there is none, otherwise 0.
    """

    example_index: int
    input_ids: np.ndarray
    question_length: int
    token_starts: np.ndarray
    token_ends: np.ndarray
    token_is_max_context: np.ndarray
    start_position: int
    end_position: int
    is_impossible: int


@dataclasses.dataclass(frozen=True)
class PassageWindows:
    """The offsets of the tokens of W windows in their passages, padded to S.

    Attributes:
        unique_ids: int (W,), ascending with the examples and within a passage. Of equally good answers,
            that of the lower id is chosen, whatever the order of the windows.
        example_indices: int (W,), index of each window's example.
        token_starts: int (W, S); this and the others are as in `Window`.
        token_ends: int (W, S).
        token_is_max_context: int or bool (W, S).
    """

    unique_ids: np.ndarray
    example_indices: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray
    token_is_max_context: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadWindows(Features):
    """All windows of some examples, in the order of the examples: 13 bytes per token.

    The labels are `start_positions`, `end_positions` and `is_impossible`, as in `Window`. What each token
    has there is along `input_ids` here, int32 or bool.

    Attributes:
        example_indices: int32 (n,), index of each window's example.
    """

    example_indices: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray
    token_is_max_context: np.ndarray

    @property
    def unique_ids(self) -> np.ndarray:
        """The number of each window, counted like in the original: int64 (n,)."""
        return _FIRST_UNIQUE_ID + np.arange(len(self))

    def passages(self, rows: np.ndarray, length: int) -> PassageWindows:
        """Returns the offsets of some windows, with zeros for padding."""
        mask, tokens = self.tokens_of(rows, length)
        offsets = {}
        for name in ("token_starts", "token_ends", "token_is_max_context"):
            values = getattr(self, name)
            offsets[name] = np.zeros(mask.shape, values.dtype)
            offsets[name][mask] = values[tokens]
        return PassageWindows(self.unique_ids[rows], self.example_indices[rows], **offsets)


def encode_windows(
    examples: Sequence[SquadExample], tokenizer: Tokenizer, config: WindowConfig
) -> SquadWindows:
    """Returns the windows of examples as arrays; see `make_windows`."""
    along_tokens = {
        name: array.array("i")
        for name in ("input_ids", "token_starts", "token_ends", "token_is_max_context")
    }
    rows = []
    with Progress("making windows", "windows", delay=SECONDS_WITHOUT_PROGRESS) as progress:
        for window in make_windows(examples, tokenizer, config):
            for name, values in along_tokens.items():
                values.frombytes(getattr(window, name).tobytes())
            length, answer = len(window.input_ids), window[-3:]
            rows.append((window.example_index, length, window.question_length, *answer))
            progress.update()
    columns = np.array(rows, np.int32).reshape(-1, 6).T.copy()
    indices, lengths, first_lengths, starts, ends, is_impossible = columns
    arrays = {name: np.array(values, np.int32) for name, values in along_tokens.items()}
    arrays["token_is_max_context"] = arrays["token_is_max_context"].astype(bool)
    return SquadWindows(
        lengths=lengths,
        first_lengths=first_lengths,
        labels={"start_positions": starts, "end_positions": ends, "is_impossible": is_impossible},
        example_indices=indices,
        **arrays,
    )


def make_windows(
    examples: Sequence[SquadExample], tokenizer: Tokenizer, config: WindowConfig
) -> Iterator[Window]:
    """Yields the windows of each example; none for a passage without tokens.

    The passage of consecutive examples is tokenised once.
    """
    questions = tokenizer.encode_batch([example.question for example in examples])
    numbered = enumerate(zip(examples, questions, strict=True))
    for context, group in itertools.groupby(numbered, lambda item: item[1][0].context):
        passage = encode_passage(context, tokenizer)
        for index, (example, question) in group:
            query = question[: config.max_query_length]
            head = np.array([tokenizer.cls_id, *query, tokenizer.sep_id], np.int32)
            yield from _cut_passage(index, example, head, passage, config)


def _cut_passage(
    index: int, example: SquadExample, head: np.ndarray, passage: Passage, config: WindowConfig
) -> Iterator[Window]:
    """Yields the windows of an example, each with `head`, which is `[CLS] question [SEP]`."""
    size = config.max_seq_length - len(head) - 1
    starts, ends = cut_passage(len(passage.ids), size, config.doc_stride)
    best = find_max_context(starts, ends)
    answer = _find_answer(example, passage)
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        part = slice(start, end)
        yield Window(
            index,
            np.concatenate([head, passage.ids[part], head[-1:]]),
            len(head),
            _beside_question(passage.starts[part], len(head)),
            _beside_question(passage.ends[part], len(head)),
            _beside_question(best[part] == number, len(head)),
            *_label(example, answer, start, end, len(head)),
        )


def _beside_question(values: np.ndarray, question_length: int) -> np.ndarray:
    """Adds zeros at the positions of the question and of the last [SEP]."""
    padded = np.zeros(question_length + len(values) + 1, np.int32)
    padded[question_length:-1] = values
    return padded


def _find_answer(example: SquadExample, passage: Passage) -> tuple[int, int] | None:
    """Returns the first and last token of the answer to train on."""
    answer = example.found_answer
    if example.is_impossible or answer is None:
        return None
    return passage.find_tokens(answer.start, answer.start + len(answer.text))


def _label(
    example: SquadExample, answer: tuple[int, int] | None, start: int, end: int, offset: int
) -> tuple[int, int, int]:
    """Returns start, end and `is_impossible` of the window of the tokens `start` to `end - 1`."""
    if example.is_impossible:
        return 0, 0, 1
    if answer is None:
        return UNKNOWN_POSITION, UNKNOWN_POSITION, 0
    first, last = answer
    if start <= first and last < end:
        return first - start + offset, last - start + offset, 0
    return 0, 0, 1


def count_answer_tokens(examples: Sequence[SquadExample], windows: SquadWindows) -> np.ndarray:
    """Returns the number of tokens of the shortest answer to each question.

    Args:
        examples: n questions.
        windows: windows of the questions.

    Returns:
        int (n,), 0 if no window holds a whole answer, or there is none.
    """
    counts = np.zeros(len(examples), np.int64)
    firsts = windows.starts + windows.first_lengths
    lasts = windows.starts + windows.lengths - 1  # [SEP]
    for index, first, last in zip(windows.example_indices, firsts, lasts, strict=True):
        starts, ends = windows.token_starts[first:last], windows.token_ends[first:last]
        for answer in set(filter(examples[index].is_at_offset, examples[index].answers)):
            start = answer.start + len(answer.text) - len(answer.text.lstrip())
            end = answer.start + len(answer.text.rstrip())
            if starts[0] <= start and end <= ends[-1]:
                before = np.searchsorted(ends, start, side="right")
                count = np.searchsorted(starts, end - 1, side="right") - before
                counts[index] = min(counts[index] or count, count)
    return counts
